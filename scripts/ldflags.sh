#!/bin/sh
# Prints the linker flags that stamp versions into the a4s binary: a4s its own,
# from the changelog and git; that of its parts from go.mod. Nothing in them
# depends on the time or the place of the build.
set -eu
cd "$(dirname "$0")/.."

commit=unknown tree=dirty date=1970-01-01T00:00:00Z version=$(scripts/version.sh)
if git rev-parse --verify --quiet HEAD >/dev/null 2>&1; then
	commit=$(git rev-parse HEAD)
	case $version in
	*-dirty) ;;
	*) tree=clean ;;
	esac
	date=$(TZ=UTC0 git log -1 --format=%cd --date=format-local:%Y-%m-%dT%H:%M:%SZ)
fi

# shellcheck disable=SC2046 # one version a word
set -- $(go list -m -f '{{.Version}}' k8s.io/kubernetes github.com/containerd/containerd/v2 go.etcd.io/etcd/server/v3)
kubernetes=$1 containerd=$2 etcd=$3
major=${kubernetes#v} minor=${kubernetes#v*.}

# Names for people, with _ for a space, and no quotes for the Makefile.
others=
while read -r name module; do
	others="$others$name=$(go list -m -f '{{.Version}}' "$module"),"
done <<EOF
kine github.com/k3s-io/kine
flannel github.com/flannel-io/flannel
CoreDNS github.com/coredns/coredns
metrics-server sigs.k8s.io/metrics-server
CNI_plugins github.com/containernetworking/plugins
EOF
runc=$(sed -n 's/^[[:space:]]*runcVersion = "\(.*\)"$/\1/p' scripts/payload/main.go)
crictl=$(sed -n 's/^[[:space:]]*crictlVersion = "\(.*\)"$/\1/p' scripts/payload/main.go)
others="${others}runc=${runc:?scripts/payload/main.go has no version of runc}"
others="$others,crictl=${crictl:?scripts/payload/main.go has no version of crictl}"

x() { printf ' -X %s=%s' "$1" "$2"; }
a4s=github.com/a4s-io/a4s/internal/version
x $a4s.Version "$version"
x $a4s.Commit "$commit"
x $a4s.Kubernetes "$kubernetes"
x $a4s.Containerd "$containerd"
x $a4s.Etcd "$etcd"
x $a4s.others "$others"
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
