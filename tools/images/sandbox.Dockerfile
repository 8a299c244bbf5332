# The sandbox's image: what a task's tools and grader run on: /usr/bin/python3, git, tar, the usual small programs. Nothing of
# Uplift is in it: the environment service puts executor, tools and grader into each pod (modules/environments/pod-driver.ts).
#
# Reproducible as platform.Dockerfile is. No compiler, no curl, no package manager that could reach anything: and no network.

ARG DEBIAN_IMAGE=docker.io/library/debian:bookworm-20250811-slim@sha256:b1a741487078b369e78119849663d7f1a5341ef2768798f7b7406c4240f86aef

FROM ${DEBIAN_IMAGE}
ARG DEBIAN_SNAPSHOT=20251015T000000Z
# No file may make its user another.
RUN set -eu; \
    rm -f /etc/apt/sources.list /etc/apt/sources.list.d/*; \
    for suite in bookworm bookworm-updates; do \
      echo "deb http://snapshot.debian.org/archive/debian/${DEBIAN_SNAPSHOT} ${suite} main" >>/etc/apt/sources.list; \
    done; \
    echo "deb http://snapshot.debian.org/archive/debian-security/${DEBIAN_SNAPSHOT} bookworm-security main" >>/etc/apt/sources.list; \
    apt-get -o Acquire::Check-Valid-Until=false update; \
    DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends git python3; \
    rm -rf /var/lib/apt/lists/* /var/cache/apt /var/cache/debconf /var/cache/ldconfig/aux-cache /var/log/*; \
    find / -xdev -perm /6000 -type f -exec chmod a-s {} +; \
    echo "sandbox:x:1000:1000::/work:/usr/sbin/nologin" >>/etc/passwd; \
    echo "sandbox:x:1000:" >>/etc/group
WORKDIR /work
# The user of sandbox pods (modules/environments/pod-manifest.ts), by number.
USER 1000:1000
CMD ["/bin/sh", "-c", "sleep infinity"]
