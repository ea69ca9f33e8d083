#!/bin/sh
# Prints the packages that have unit tests: with "light" those that build in
# seconds, because they do not depend on the Kubernetes server code, with
# "heavy" the others. The light ones run with the race detector, so packages on
# top of flannel are with the heavy: its rule manager for iptables appends to one
# list from two goroutines (lost can be a rule to remove when it stops), and so are
# those on top of kine: its driver for NATS shares variables unguarded. Tests
# below tests/ that have targets of their own are in neither list.
set -eu
cd "$(dirname "$0")/.."
case ${1-} in
light | heavy) ;;
*)
	echo "usage: $0 light|heavy" >&2
	exit 1
	;;
esac
go list -f '{{if or .TestGoFiles .XTestGoFiles}}{{.ImportPath}} {{join .Deps " "}} {{join .TestImports " "}} {{join .XTestImports " "}}{{end}}' ./... |
	awk -v want="$1" '
		NF == 0 || $1 ~ /\/tests\/((integration|e2e|vm|vmpods|foreign)(\/|$)|bench(\/(tenancy|upstream))?$)/ { next }
		{
			kind = "light"
			for (i = 2; i <= NF; i++) if ($i ~ /^k8s\.io\/kubernetes\/|^github\.com\/flannel-io\/flannel\/pkg\/trafficmngr\/|^github\.com\/k3s-io\/kine\/pkg\/drivers\/nats$/) kind = "heavy"
			if (kind == want) print $1
		}'
