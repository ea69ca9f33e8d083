package cmd

import "github.com/urfave/cli/v2"

// example is a command line that can be typed as it is, in a cluster with the names in it.
type example struct {
	// Why is what the line is for, and Line the whole of it.
	Why, Line string
}

// examplesOf are the examples in the help of a command.
func examplesOf(c *cli.Command) []example { return examples()[c.HelpName] }

// examples are those of all commands, by full name. A test types each.
func examples() map[string][]example {
	return map[string][]example{
		"a4s": {
			{"a cluster of this machine", "a4s server"},
			{"what is in it", "a4s kubectl get nodes"},
			{"a tenant, with a kubeconfig for its administrator", "a4s tenant create team-a -o team-a.yaml"},
		},

		"a4s server": {
			{"a cluster of this machine", "a4s server"},
			{"the first of several servers, behind a name", "a4s server --cluster-init --tls-san a4s.example.com"},
			{"another server of that cluster",
				"a4s server --server https://192.0.2.10:6443 --token-file /etc/a4s/token"},
		},
		"a4s agent": {
			{"a node that joins the server at 192.0.2.10",
				"a4s agent --server https://192.0.2.10:6443 --token-file /etc/a4s/token"},
			{"the same, with a label",
				"a4s agent --server https://192.0.2.10:6443 --token-file /etc/a4s/token " +
					"--node-label zone=a"},
		},
		"a4s check-config": {
			{"before the first start", "a4s check-config"},
			{"for data on another disk", "a4s check-config --data-dir /srv/a4s"},
		},
		"a4s killall": {
			{"before this machine is used for something else", "a4s killall"},
		},
		"a4s vm-runtime": {
			{"with a kernel of this machine, where there is KVM",
				"a4s vm-runtime --kernel /boot/vmlinuz --initrd /boot/initrd.img --accelerator kvm"},
		},

		"a4s status": {
			{"whether everything runs", "a4s status"},
			{"with versions and runtimes of the nodes", "a4s status -o wide"},
			{"of a server elsewhere", "a4s status --kubeconfig admin.yaml"},
		},
		"a4s doctor": {
			{"what is wrong, and what to do", "a4s doctor"},
			{"for a program", "a4s doctor -o json"},
		},
		"a4s support-bundle": {
			{"for the report of a bug", "a4s support-bundle"},
			{"with the objects of a tenant", "a4s support-bundle --tenant team-a -o team-a.tar.gz"},
		},
		"a4s top": {
			{"the busiest tenants", "a4s top tenants"},
		},
		"a4s top tenants": {
			{"the busiest five", "a4s top tenants -n 5"},
			{"all, for a program", "a4s top tenants -n 0 -o json"},
		},

		"a4s kubectl": {
			{"the pods of the system space", "a4s kubectl get pods -A"},
			{"the pods of a tenant", "a4s kubectl --tenant team-a get pods -A"},
		},
		"a4s tenant": {
			{"a tenant, with a kubeconfig for its administrator", "a4s tenant create team-a -o team-a.yaml"},
			{"what there is", "a4s tenant list -o wide"},
		},
		"a4s tenant create": {
			{"a tenant, with a kubeconfig for its administrator", "a4s tenant create team-a -o team-a.yaml"},
			{"one that works on other machines",
				"a4s tenant create team-a --server https://192.0.2.10:6443 -o team-a.yaml"},
			{"another user of it, who may read", "a4s tenant create team-a --user bob --role view -o bob.yaml"},
		},
		"a4s tenant list": {
			{"the tenants and their state", "a4s tenant list"},
			{"their names, for a script", "a4s tenant list -o name"},
		},
		"a4s tenant delete": {
			{"a tenant and all that it has", "a4s tenant delete team-a"},
			{"without waiting for the end", "a4s tenant delete team-a --wait=false"},
		},
		"a4s tenant kubeconfig": {
			{"for the administrator of a tenant", "a4s tenant kubeconfig team-a -o team-a.yaml"},
			{"for a user with a group, for a month",
				"a4s tenant kubeconfig team-a --user bob --group dev --expires 720h -o bob.yaml"},
			{"for all who log in with OpenID Connect", "a4s tenant kubeconfig team-a --oidc -o team-a.yaml " +
				"--oidc-issuer-url https://login.example.com --oidc-client-id a4s"},
		},

		"a4s token": {
			{"a token for a node that joins within the hour", "a4s token create --ttl 1h"},
			{"what tokens there are", "a4s token list"},
		},
		"a4s token create": {
			{"for a node that joins within the hour", "a4s token create --ttl 1h"},
			{"for whoever reads the list later", "a4s token create --description rack-2"},
		},
		"a4s token list": {
			{"what tokens there are, and until when", "a4s token list"},
		},
		"a4s token delete": {
			{"the one that the list calls abcdef", "a4s token delete abcdef"},
		},
		"a4s token rotate": {
			{"a new token for agents", "a4s token rotate --which agent"},
		},
		"a4s node": {
			{"before a machine is serviced", "a4s node drain worker-1 --ignore-daemonsets"},
			{"after one was stolen", "a4s node revoke worker-1 --delete"},
		},
		"a4s node drain": {
			{"what would be evicted", "a4s node drain worker-1 --ignore-daemonsets --dry-run"},
			{"before a machine is serviced", "a4s node drain worker-1 --ignore-daemonsets --delete-emptydir-data"},
			{"pods that have no controller, too", "a4s node drain worker-1 --ignore-daemonsets --force"},
		},
		"a4s node revoke": {
			{"a machine that somebody broke into", "a4s node revoke worker-1"},
			{"a machine that does not come back", "a4s node revoke worker-1 --delete"},
		},
		"a4s groups": {
			{"what each group has", "a4s groups list"},
			{"what would make their load equal", "a4s groups suggest"},
		},
		"a4s groups list": {
			{"what each group has", "a4s groups list"},
			{"the same, for a program", "a4s groups list -o json"},
		},
		"a4s groups suggest": {
			{"what would make the load of the groups equal", "a4s groups suggest"},
		},
		"a4s groups apply": {
			{"do what suggest says", "a4s groups apply"},
		},
		"a4s groups drain": {
			{"before the servers of group 1 stop", "a4s groups drain 1"},
			{"when they are back", "a4s groups drain 1 --undo"},
		},
		"a4s partition": {
			{"the partitions, and whether they answer", "a4s partition list"},
			{"when all machines of one are off for good", "a4s partition evict tp2"},
		},
		"a4s partition list": {
			{"the partitions, and whether they answer", "a4s partition list"},
			{"the same, for a program", "a4s partition list -o json"},
		},
		"a4s partition remove": {
			{"one whose tenants are deleted and whose servers are stopped", "a4s partition remove tp2"},
			{"one that is lost, with its tenants", "a4s partition remove tp2 --lost"},
		},
		"a4s partition evict": {
			{"when all machines of a partition are off", "a4s partition evict tp2"},
		},

		"a4s etcd-snapshot": {
			{"a snapshot now", "a4s etcd-snapshot save"},
			{"what snapshots there are", "a4s etcd-snapshot list"},
		},
		"a4s etcd-snapshot save": {
			{"before an upgrade", "a4s etcd-snapshot save --name before-upgrade"},
			{"with a copy elsewhere",
				"a4s etcd-snapshot save --etcd-s3 --etcd-s3-endpoint s3.example.com --etcd-s3-bucket backups"},
		},
		"a4s etcd-snapshot list": {
			{"here, and in the S3 storage of the server", "a4s etcd-snapshot list"},
			{"of another directory", "a4s etcd-snapshot list --etcd-snapshot-dir /srv/snapshots"},
		},
		"a4s etcd-snapshot delete": {
			{"one that the list names", "a4s etcd-snapshot delete on-demand-server-1-1795860900.tar"},
		},
		"a4s etcd-snapshot prune": {
			{"all but the newest three of save", "a4s etcd-snapshot prune --etcd-snapshot-retention 3"},
		},
		"a4s etcd-snapshot restore": {
			{"one that the list names", "a4s etcd-snapshot restore on-demand-server-1-1795860900.tar"},
			{"one from elsewhere",
				"a4s etcd-snapshot restore /root/on-demand-server-1-1795860900.tar"},
			{"one in S3 storage", "a4s etcd-snapshot restore " +
				"s3://backups/cluster-1/on-demand-server-1-1795860900.tar"},
		},
		"a4s etcd-member": {
			{"which servers the datastore is on", "a4s etcd-member list"},
		},
		"a4s etcd-member list": {
			{"which servers the datastore is on", "a4s etcd-member list"},
		},
		"a4s etcd-member remove": {
			{"a server without a node that does not come back", "a4s etcd-member remove server-3"},
		},
		"a4s secrets-encrypt": {
			{"whether Secrets are encrypted", "a4s secrets-encrypt status"},
			{"encrypt them from now on", "a4s secrets-encrypt enable"},
		},
		"a4s secrets-encrypt enable": {
			{"on one server, for all of them", "a4s secrets-encrypt enable"},
		},
		"a4s secrets-encrypt disable": {
			{"on one server, for all of them", "a4s secrets-encrypt disable"},
		},
		"a4s secrets-encrypt reencrypt": {
			{"after a restore of an old snapshot", "a4s secrets-encrypt reencrypt"},
		},
		"a4s secrets-encrypt rotate": {
			{"once a year, or when somebody may know the key", "a4s secrets-encrypt rotate"},
		},
		"a4s secrets-encrypt status": {
			{"which key is used, and by how many Secrets", "a4s secrets-encrypt status"},
			{"the same, for a program", "a4s secrets-encrypt status -o json"},
		},
		"a4s certificate": {
			{"when they expire", "a4s certificate check"},
			{"renew them now", "a4s certificate rotate"},
		},
		"a4s certificate check": {
			{"when they expire", "a4s certificate check"},
			{"the same, for a program", "a4s certificate check -o json"},
		},
		"a4s certificate rotate": {
			{"when somebody may have read the key of one", "a4s certificate rotate"},
		},
		"a4s certificate rotate-ca": {
			{"new CAs, on one server", "a4s certificate rotate-ca"},
			{"the end of the old ones, when all servers and agents have been restarted",
				"a4s certificate rotate-ca --finish"},
		},

		"a4s runtime": {
			{"the runtimes of the node", "a4s runtime list"},
		},
		"a4s runtime list": {
			{"the runtimes of the node", "a4s runtime list"},
			{"the same, for a program", "a4s runtime list -o json"},
		},
		"a4s runtime add": {
			{"one for pods that are virtual machines", "a4s runtime add kata vm /run/kata/cri.sock"},
		},
		"a4s runtime remove": {
			{"one that runs no pods any more", "a4s runtime remove kata"},
		},
		"a4s bootstrap": {
			{"run the pods of a file", "a4s bootstrap apply -f pods.yaml"},
			{"how they are", "a4s bootstrap list"},
		},
		"a4s bootstrap apply": {
			{"run the pods of a file", "a4s bootstrap apply -f pods.yaml"},
		},
		"a4s bootstrap delete": {
			{"one of the namespace kube-system", "a4s bootstrap delete etcd -n kube-system"},
		},
		"a4s bootstrap list": {
			{"the pods of this node", "a4s bootstrap list"},
			{"the same, for a program", "a4s bootstrap list -o json"},
		},
		"a4s ctr": {
			{"the images of this node", "a4s ctr images ls"},
			{"images from an archive", "a4s ctr images import images.tar"},
		},
		"a4s crictl": {
			{"the pods of this node", "a4s crictl pods"},
			{"what a container has written", "a4s crictl logs CONTAINER"},
		},

		"a4s completion": {
			{"for bash", "source <(a4s completion bash)"},
			{"for zsh", "source <(a4s completion zsh)"},
			{"for fish", "a4s completion fish | source"},
		},
		"a4s version": {
			{"of a4s and of what it is made of", "a4s version"},
			{"the same, for a program", "a4s version -o json"},
		},
	}
}
