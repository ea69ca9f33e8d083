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
other_container() { [ -n "$(container)" ] && ! same_container; }
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

files() { find /etc /usr /opt /var /run/a4s -xdev \( -path /var/log/journal -o -path /var/lib/systemd -o -path /var/tmp \) -prune -o -print 2>/dev/null | sort; }
same_files() { files | diff /tmp/files.before -; }
installer() { env "$@" sh /opt/a4s/install.sh; }
service_pid() { systemctl show -p MainPID --value a4s; }
same_process() { [ "$(service_pid)" = "$pid" ]; }
next_build() { a4s --version | grep -q v0.0.0-next; }
first_build() { ! next_build; }
options_kept() { k get nodes -l tier=test | grep -Eq '^kept +Ready'; }

files >/tmp/files.before
check 'cgroup v2 only' unified
check 'dry run' installer INSTALL_A4S_ARTIFACT_PATH=/opt/a4s/first INSTALL_A4S_DRY_RUN=true
check 'dry run changed nothing' same_files
check 'install' installer INSTALL_A4S_ARTIFACT_PATH=/opt/a4s/first INSTALL_A4S_SKIP_START=true \
	A4S_NODE_NAME=kept 'INSTALL_A4S_EXEC=server --node-label tier=test'
check 'enabled at boot' systemctl is-enabled a4s
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
pid=$(service_pid)
check 'install again, without options' installer INSTALL_A4S_ARTIFACT_PATH=/opt/a4s/first
check 'installing the same again did not restart it' same_process
check 'upgrade' installer INSTALL_A4S_ARTIFACT_PATH=/opt/a4s/next
check 'the upgrade is the other build' next_build
wait_for 'options kept by the upgrade' options_kept
wait_for 'available after the upgrade' available
check 'the upgrade kept the container' same_container
check 'rollback' installer INSTALL_A4S_ROLLBACK=true
check 'the rollback is the first build' first_build
wait_for 'options kept by the rollback' options_kept
wait_for 'available after the rollback' available
check 'the rollback kept the container' same_container
check 'stop of the service' systemctl stop a4s
check 'pods survive the stop' shims_run
check 'killall' a4s-killall.sh
check 'nothing is left' nothing_left
check 'start after killall' systemctl start a4s
wait_for 'a new container after killall' other_container
wait_for 'available after killall' available
check 'uninstall' a4s-uninstall.sh
check 'nothing is left of it' nothing_left
check 'its files are gone' same_files
check 'its service is gone' test "$(systemctl show -p LoadState --value a4s)" = not-found
journalctl -u a4s --no-pager | grep -v level=info | tail -n 60
echo DONE
