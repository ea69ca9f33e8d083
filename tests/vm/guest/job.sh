#!/bin/sh
# What the guest is booted for. Each line that begins with OK or FAILED is one
# result; the test reads them.
export PATH="$PATH:/usr/local/bin:/usr/sbin:/sbin"
now() { cut -d. -f1 /proc/uptime; }
begin=$(now)
ok() { echo "OK $1 (after $(($(now) - begin)) s)"; }
check() { # NAME COMMAND...: one try
	name=$1
	shift
	if "$@"; then ok "$name"; else echo "FAILED $name"; fi
}
wait_for() { # NAME COMMAND...: until it succeeds; everything is slow here
	name=$1
	shift
	n=0
	until "$@" >/dev/null 2>&1; do
		n=$((n + 1))
		if [ $n -gt 150 ]; then
			echo "FAILED $name"
			"$@"
			return
		fi
		sleep 2
	done
	ok "$name"
}
k() { a4s kubectl "$@"; }
unified() { [ "$(stat -fc %T /sys/fs/cgroup)" = cgroup2fs ]; }
node_ready() { k get nodes | grep -q ' Ready'; }
available() { k wait --for=condition=Available deployment/web --timeout=1s; }
by_name() { [ "$(k exec deployment/web -- /testbox get http://web/hostname | cut -c1-4)" = web- ]; }
container() { k get pods -l app=web -o 'jsonpath={.items[0].status.containerStatuses[0].containerID}'; }
same_container() { [ -n "$first" ] && [ "$(container)" = "$first" ]; }
oom_killed() { k get pod oom -o 'jsonpath={.status.containerStatuses[0].state.terminated.reason}' | grep -q OOMKilled; }
shims_run() { pgrep -f containerd-shim >/dev/null; }
nothing_left() {
	left=$(
		pgrep -af 'containerd|testbox|/pause'
		mount | grep -E 'a4s|kubelet|netns'
		ip -br link | grep -E 'cni-a4s0|flannel|a4s-dns|veth'
		nft list tables | grep -E 'kube|flannel|cni|a4s'
		find /sys/fs/cgroup -name '*kubepods*'
	)
	[ -z "$left" ] || echo "$left"
	[ -z "$left" ]
}

check 'cgroup v2 only' unified
check 'check-config passes' a4s check-config
check 'the service becomes active' systemctl start a4s
wait_for 'node ready' node_ready
k create deployment web --image=docker.io/a4s/testbox:1 --port=8080 -- /testbox serve
wait_for 'deployment available' available
k expose deployment web --port=80 --target-port=8080
wait_for 'service answers by its name' by_name
check 'systemd driver for pod cgroups' test -d /sys/fs/cgroup/kubepods.slice
k apply -f - <<POD
apiVersion: v1
kind: Pod
metadata: {name: oom}
spec:
  restartPolicy: Never
  containers:
  - name: c
    image: docker.io/a4s/testbox:1
    command: [/testbox, eat, "200"]
    resources: {limits: {memory: 40Mi}}
POD
wait_for 'memory limit kills' oom_killed
first=$(container)
check 'restart of the service' systemctl restart a4s
wait_for 'node ready after the restart' node_ready
wait_for 'available after the restart' available
check 'the restart kept the container' same_container
systemctl kill --kill-whom=main --signal=KILL a4s
sleep 1
wait_for 'active after a kill' systemctl is-active a4s
wait_for 'available after the kill' available
check 'the kill kept the container' same_container
check 'stop of the service' systemctl stop a4s
check 'pods survive the stop' shims_run
check 'killall' a4s killall
check 'nothing is left' nothing_left
journalctl -u a4s --no-pager | grep -v level=info | tail -n 60
echo DONE
