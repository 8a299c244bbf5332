#!/usr/bin/env bash
# The real engines behind a Kubernetes platform and its tests, built from their Go modules with the versions this clone names.
# In: tools/{pulumi-kubernetes,kubernetes-api,etcd,slurm-operator}; Go and its module proxy. Out: a folder an engine under
# ~/.cache/uplift/engines (or $UPLIFT_CACHE/engines), named by the digest of what it is built from, and a line an engine
# on standard output. Run again, it only looks (under 1 s). Interrupted, it goes on: Go keeps what is compiled already.
#
#   tools/engines.sh [ENGINE…]           builds these, or all: pulumi-kubernetes kubernetes-api etcd slurm-operator
#   tools/engines.sh --print [ENGINE…]   builds nothing; their files' absolute paths as JSON, or exit code 1 if one is missing
#
# `uplift up --target kubernetes` needs pulumi-kubernetes only. All take 20 to 35 minutes of one core, 5 GB of memory while
# that one is linked, 0.6 GB of disk and about 10 GB in Go's own caches.
set -euo pipefail

PULUMI_KUBERNETES_VERSION=4.34.2 # of @pulumi/kubernetes, whose programs the provider serves
ENGINES="pulumi-kubernetes kubernetes-api etcd slurm-operator" # the longest first

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
cache=${UPLIFT_CACHE:-$HOME/.cache/uplift}

me=engines
own_group=yes
say() { echo "engines: $*" >&2; }
. "$here/steps.sh"

print=no
names=()
for argument in "$@"; do
  case " $ENGINES " in *" $argument "*) names+=("$argument"); continue ;; esac
  case $argument in
    --print) print=yes ;;
    --help | -h) sed -n '2,11s/^# \{0,1\}//p' "${BASH_SOURCE[0]}"; exit 0 ;;
    *) echo "tools/engines.sh: $argument is neither an engine nor an option. Allowed: $ENGINES, --print, --help." >&2; exit 2 ;;
  esac
done
[ ${#names[@]} -gt 0 ] || read -ra names <<<"$ENGINES"

required_version() { # ENGINE MODULE → v1.2.3
  sed -nE "s#^require $2 (v[^ ]+)\$#\1#p" "$here/$1/go.mod"
}

linker_flags() { # ENGINE. Without a version, Pulumi and clients of Kubernetes refuse or misjudge what they talk to.
  local version kubernetes=k8s.io/component-base/version
  case $1 in
    pulumi-kubernetes)
      echo "-s -w -X github.com/pulumi/pulumi-kubernetes/provider/v4/pkg/version.Version=v$PULUMI_KUBERNETES_VERSION" ;;
    kubernetes-api)
      version=$(required_version kubernetes-api k8s.io/kubernetes)
      echo "-s -w -X $kubernetes.gitVersion=$version -X $kubernetes.gitMajor=1 -X $kubernetes.gitMinor=$(cut -d. -f2 <<<"$version")" ;;
    *) echo "-s -w" ;;
  esac
}

engine_folder() { # ENGINE
  local digest
  digest=$({ cd "$here/$1" && sha256sum -- *.go go.mod go.sum; linker_flags "$1"; uname -sm; } | sha256sum)
  echo "$cache/engines/$1-${digest:0:12}"
}

# --print's fields and the files they name.
fields() { # ENGINE
  case $1 in
    pulumi-kubernetes) echo pulumiKubernetes pulumi-resource-kubernetes ;;
    kubernetes-api) printf '%s\n' 'kubeApiserver kube-apiserver' 'kubeControllerManager kube-controller-manager' \
      'kubernetesOpenapi swagger.json' ;;
    etcd) echo etcd etcd ;;
    slurm-operator) printf '%s\n' 'slurmOperator slurm-operator' 'slurmOperatorWebhook slurm-operator-webhook' \
      'slinkyCrds crds' ;;
  esac
}

print_paths() {
  local name folder field file lines=() missing=()
  for name in "${names[@]}"; do
    folder=$(engine_folder "$name")
    [ -d "$folder" ] || { missing+=("$name"); continue; }
    while read -r field file; do
      file="$folder/$file"
      file=${file//\\/\\\\}
      lines+=("  \"$field\": \"${file//\"/\\\"}\"")
    done < <(fields "$name")
  done
  [ ${#missing[@]} -eq 0 ] || fail "not built yet for this clone: ${missing[*]}." "Run tools/engines.sh ${missing[*]}"
  (IFS=$'\n'; echo "{"; echo "${lines[*]}" | sed '$!s/$/,/'; echo "}")
}

go_needed() {
  have go || fail "There is no Go to build $1 with." "Install Go 1.21 or newer (it fetches the version it needs), then run this again."
}

compile() { # ENGINE SOURCE_FOLDER OUT PACKAGE…
  local name=$1 source=$2 out=$3
  shift 3
  must "$name" go build -C "$source" -mod=readonly -buildvcs=false -ldflags "$(linker_flags "$name")" -o "$out" "$@"
}

fetch_module() { # ENGINE MODULE → $module, the folder where Go keeps its files
  must "$1-module" go -C "$here/$1" mod download "$2"
  module=$(go -C "$here/$1" list -mod=readonly -m -f '{{.Dir}}' "$2")
}

# Pulumi's own download, at most 90 s, with the Pulumi that tools/setup.sh found or made.
download_pulumi_kubernetes() { # FOLDER
  local pulumi candidate home="$1/pulumi-home"
  for candidate in "$(command -v pulumi)" "$cache"/bin/pulumi-[0-9]*; do
    [ -x "$candidate" ] && [[ $candidate != *.partial ]] && pulumi=$candidate && break
  done
  [ -n "${pulumi:-}" ] || return
  say "  first Pulumi's own download (at most 90 s)"
  if try pulumi-kubernetes-download env PULUMI_HOME="$home" PULUMI_SKIP_UPDATE_CHECK=1 \
    timeout --kill-after 5 90 "$pulumi" plugin install resource kubernetes "$PULUMI_KUBERNETES_VERSION"; then
    mv "$home/plugins/resource-kubernetes-v$PULUMI_KUBERNETES_VERSION/pulumi-resource-kubernetes" "$1/" && rm -rf "$home" && return
  fi
  rm -rf "$home"
  say "  it cannot be had: the provider is built from its Go module (10 to 20 minutes of one core, once)"
  return 1
}

build_pulumi_kubernetes() { # FOLDER
  download_pulumi_kubernetes "$1" && return
  go_needed pulumi-kubernetes
  local source="$1/source" module
  fetch_module pulumi-kubernetes github.com/pulumi/pulumi-kubernetes/provider/v4
  # 8 MB of generated files that the build embeds: beside a copy of its source, so that they stay out of the clone.
  mkdir "$source"
  cp "$here"/pulumi-kubernetes/{go.mod,go.sum,main.go} "$source/"
  must pulumi-kubernetes-generate go run -C "$here/pulumi-kubernetes" generate.go "$module" "$PULUMI_KUBERNETES_VERSION" "$source"
  compile pulumi-kubernetes "$source" "$1/pulumi-resource-kubernetes" .
  rm -r "$source"
}

build_kubernetes_api() { # FOLDER
  go_needed kubernetes-api
  local module
  compile kubernetes-api "$here/kubernetes-api" "$1/" k8s.io/kubernetes/cmd/kube-apiserver k8s.io/kubernetes/cmd/kube-controller-manager
  fetch_module kubernetes-api k8s.io/kubernetes
  install -m 644 "$module/api/openapi-spec/swagger.json" "$1/"
}

build_etcd() { # FOLDER
  go_needed etcd
  compile etcd "$here/etcd" "$1/etcd" go.etcd.io/etcd/server/v3
}

build_slurm_operator() { # FOLDER
  go_needed slurm-operator
  local module operator=github.com/SlinkyProject/slurm-operator
  compile slurm-operator "$here/slurm-operator" "$1/slurm-operator" $operator/cmd/manager
  compile slurm-operator "$here/slurm-operator" "$1/slurm-operator-webhook" $operator/cmd/webhook
  fetch_module slurm-operator $operator
  mkdir "$1/crds"
  install -m 644 "$module"/config/crd/bases/*.yaml "$1/crds/"
}

# Makes an engine in a folder beside its own and renames it, so that a folder of the right name is always whole.
build() { # ENGINE FOLDER
  local started=$SECONDS
  say "$1: to be built, once for this version"
  partial="$2.partial"
  rm -rf "$partial"
  mkdir "$partial"
  "build_${1//-/_}" "$partial"
  mv "$partial" "$2"
  say "  done in $(elapsed $started)"
}

[ $print = no ] || { print_paths; exit; }

umask 022
mkdir -p "$cache/engines"
have flock || fail "flock is missing: install util-linux, then run this again."
worker=
partial=
trap '[ -z "$worker" ] || kill -- "-$worker" 2>/dev/null; [ -z "$partial" ] || rm -rf "$partial"' EXIT
trap 'exit 130' INT TERM
for name in "${names[@]}"; do
  folder=$(engine_folder "$name")
  if [ ! -d "$folder" ]; then
    # What this script starts inherits the lock: a build that outlives it, when it is killed, is waited for.
    exec 9>"$cache/engines/$name.lock"
    flock --nonblock 9 || { say "another run builds $name; waiting for it"; flock 9; }
    [ -d "$folder" ] || build "$name" "$folder"
    exec 9>&-
  fi
  echo "$name: $folder"
done
