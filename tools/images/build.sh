#!/usr/bin/env bash
# Uplift's own two images, from the commit that is checked out: a registry's prefix → images there and the lines of the target
# file that name them by digest.
# In: this clone's HEAD, docker with buildx. Out: images in the registry (--push) or OCI archives in out/images. Needs no root.
#
#   tools/images/build.sh PREFIX [--push] [--platform linux/amd64] [--npmrc FILE] [--twice]
#
#   PREFIX      registry and folder: registry.example.org/uplift → …/uplift/platform and …/uplift/sandbox
#   --push      to the registry, with provenance; without it nothing leaves this machine, and digests are of archives
#   --npmrc     settings of a registry of npm packages that asks for a login; it is in no layer
#   --twice     builds each image again from nothing and says whether the digest is the same
set -euo pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
say() { echo "images: $*" >&2; }
fail() { printf 'images: %s\n' "$@" >&2; exit 1; }
usage() { sed -n '6,12s/^# \{0,1\}//p' "${BASH_SOURCE[0]}"; }

prefix= push=no platform=linux/amd64 npmrc= twice=no
while [ $# -gt 0 ]; do
  case $1 in
    --push) push=yes ;;
    --twice) twice=yes ;;
    --platform) platform=${2:?--platform needs a value}; shift ;;
    --npmrc) npmrc=${2:?--npmrc needs a file}; shift ;;
    --help | -h) usage; exit 0 ;;
    -*) fail "$1 is not an option." "$(usage)" ;;
    *) [ -z "$prefix" ] || fail "one PREFIX is enough: $prefix or $1?"; prefix=${1%/} ;;
  esac
  shift
done
[ -n "$prefix" ] || fail "a registry's prefix is missing." "$(usage)"
[ -z "$npmrc" ] || [ -f "$npmrc" ] || fail "$npmrc: no such file."
command -v docker >/dev/null || fail "docker is missing." "Install Docker Engine 25 or newer with buildx, or run this where it is."
docker buildx version >/dev/null 2>&1 || fail "docker has no buildx." "Install docker-buildx-plugin, then run this again."

commit=$(git -C "$root" rev-parse HEAD) || fail "this is no git clone: images are built from a commit."
[ -z "$(git -C "$root" status --porcelain)" ] || say "uncommitted changes are not in these images: they are of commit ${commit:0:12}"
# Every time in the images is the commit's.
SOURCE_DATE_EPOCH=$(git -C "$root" log -1 --format=%ct HEAD)
export SOURCE_DATE_EPOCH

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir "$work/context"
(umask 022 && git -C "$root" archive HEAD | tar -x -C "$work/context")

# build NAME OUTPUT METADATA ARGUMENTS…
build() {
  local name=$1 output=$2 metadata=$3
  shift 3
  docker buildx build --platform "$platform" \
    --file "$work/context/tools/images/$name.Dockerfile" \
    --build-arg "SOURCE_DATE_EPOCH=$SOURCE_DATE_EPOCH" \
    --label "org.opencontainers.image.revision=$commit" \
    ${npmrc:+--secret "id=npmrc,src=$npmrc"} \
    --output "$output,rewrite-timestamp=true" --metadata-file "$metadata" "$@" "$work/context" >&2
}
digest_of() { sed -n 's/.*"containerimage.digest": *"\(sha256:[0-9a-f]\{64\}\)".*/\1/p' "$1" | head -n 1; }

mkdir -p "$root/out/images"
lines=
for name in platform sandbox; do
  if [ $push = yes ]; then
    build $name "type=image,name=$prefix/$name,push=true" "$work/$name.json" --provenance=mode=max
  else
    build $name "type=oci,dest=$root/out/images/$name.tar" "$work/$name.json" --provenance=false
  fi
  digest=$(digest_of "$work/$name.json")
  [ -n "$digest" ] || fail "docker said no digest of $name: a builder of BuildKit 0.13 or newer is needed" \
    "(docker buildx create --use makes one)."
  if [ $twice = yes ]; then
    # Provenance says when it was built, so it is left out of what is compared.
    for copy in 1 2; do
      build $name "type=oci,dest=$work/$name-$copy.tar" "$work/$name-$copy.json" --provenance=false --no-cache
    done
    [ "$(digest_of "$work/$name-1.json")" = "$(digest_of "$work/$name-2.json")" ] ||
      fail "$name: two builds of commit ${commit:0:12} differ: $(digest_of "$work/$name-1.json"), $(digest_of "$work/$name-2.json")"
    say "$name: two builds are the same, $(digest_of "$work/$name-1.json")"
  fi
  lines="$lines  $name: \"$prefix/$name@$digest\",
"
done
[ $push = yes ] || say "archives are in out/images; with --push they go to the registry, with other digests (provenance)"
printf '// platform.images of the target file, commit %s\nimages: {\n%s},\n' "${commit:0:12}" "$lines"
