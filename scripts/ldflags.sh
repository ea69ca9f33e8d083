#!/bin/sh
# Prints the linker flags that stamp versions into the a4s binary: a4s its own,
# from git; Kubernetes, containerd and etcd theirs, from go.mod. Nothing in them
# depends on the time or the place of the build.
set -eu
cd "$(dirname "$0")/.."

commit=unknown tree=dirty date=1970-01-01T00:00:00Z version=v0.0.0-dev
if git rev-parse --verify --quiet HEAD >/dev/null 2>&1; then
	commit=$(git rev-parse HEAD)
	version=$(git describe --tags --always --dirty)
	case $version in
	*-dirty) ;;
	*) tree=clean ;;
	esac
	case $version in
	v[0-9]*) ;;
	*) version=v0.0.0-$version ;; # no tag yet
	esac
	date=$(TZ=UTC0 git log -1 --format=%cd --date=format-local:%Y-%m-%dT%H:%M:%SZ)
fi

# shellcheck disable=SC2046 # one version a word
set -- $(go list -m -f '{{.Version}}' k8s.io/kubernetes github.com/containerd/containerd/v2 go.etcd.io/etcd/server/v3)
kubernetes=$1 containerd=$2 etcd=$3
major=${kubernetes#v} minor=${kubernetes#v*.}

x() { printf ' -X %s=%s' "$1" "$2"; }
a4s=github.com/a4s-io/a4s/internal/version
x $a4s.Version "$version"
x $a4s.Commit "$commit"
x $a4s.Kubernetes "$kubernetes"
x $a4s.Containerd "$containerd"
x $a4s.Etcd "$etcd"
for p in k8s.io/component-base/version k8s.io/client-go/pkg/version; do
	x $p.gitVersion "$kubernetes"
	x $p.gitMajor "${major%%.*}"
	x $p.gitMinor "${minor%%.*}"
	x $p.gitCommit "$commit"
	x $p.gitTreeState "$tree"
	x $p.buildDate "$date"
done
x github.com/containerd/containerd/v2/version.Version "${containerd#v}"
x github.com/containerd/containerd/v2/version.Revision "$commit"
