# The platform's image: controller, migrations, environment service, node drain. One image, the command says which.
# In: package.json, package-lock.json and the source of modules, schemas, stacks. Out: /uplift, run by Node with tsx, no root needed.
#
# Reproducible: bases by digest, packages by the lock file's hashes, Debian's packages from a snapshot of one moment, times cut
# to SOURCE_DATE_EPOCH by tools/images/build.sh. To move on: a newer base, a newer snapshot, together.
# No Pulumi engine in it: the controller ends expired endpoints over the Kubernetes API, and `uplift up` runs elsewhere.

# Node 22: 20 is past its end of life.
ARG NODE_IMAGE=docker.io/library/node:22.20.0-bookworm-slim@sha256:b21fe589dfbe5cc39365d0544b9be3f1f33f55f3c86c87a76ff65a02f8f5848e

FROM ${NODE_IMAGE} AS packages
WORKDIR /uplift
COPY package.json package-lock.json .npmrc ./
# No package's script runs: what they would do, download engines and browsers, is not needed. A registry that asks for a login
# is given as a secret of the build (--secret id=npmrc,src=…), which leaves nothing in the image.
RUN --mount=type=secret,id=npmrc,target=/root/.npmrc \
    npm ci --omit=dev --ignore-scripts --no-audit --no-fund \
    && rm -rf /root/.npm node_modules/.package-lock.json
COPY tsconfig.json LICENSE ./
COPY schemas schemas
COPY modules modules
COPY stacks stacks
# Whatever the umask of who checked the source out.
RUN chmod -R u=rwX,go=rX .

FROM ${NODE_IMAGE}
ARG DEBIAN_SNAPSHOT=20251015T000000Z
# git makes the repositories of tasks. Debian's own mirrors forget versions; a snapshot's signatures are the same, only old.
RUN set -eu; \
    rm -f /etc/apt/sources.list /etc/apt/sources.list.d/*; \
    for suite in bookworm bookworm-updates; do \
      echo "deb http://snapshot.debian.org/archive/debian/${DEBIAN_SNAPSHOT} ${suite} main" >>/etc/apt/sources.list; \
    done; \
    echo "deb http://snapshot.debian.org/archive/debian-security/${DEBIAN_SNAPSHOT} bookworm-security main" >>/etc/apt/sources.list; \
    apt-get -o Acquire::Check-Valid-Until=false update; \
    DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends git; \
    rm -rf /var/lib/apt/lists/* /var/cache/apt /var/cache/debconf /var/cache/ldconfig/aux-cache /var/log/*; \
    echo "uplift:x:990:990::/tmp:/usr/sbin/nologin" >>/etc/passwd; \
    echo "uplift:x:990:" >>/etc/group
COPY --from=packages /uplift /uplift
WORKDIR /uplift
# /tmp is the one folder it writes to by itself: mount one there where the root is read-only.
ENV NODE_ENV=production HOME=/tmp
# UPLIFT_UID of schemas/manifest.ts, by number: Kubernetes cannot tell whether a name is root.
USER 990:990
ENTRYPOINT ["node", "--import", "tsx", "modules/cli/main.ts"]
CMD ["--help"]
