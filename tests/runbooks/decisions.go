package runbooks

// How says what the test of a runbook does with a command, or with what is printed.
type How int

// As the page has it, in another way, or not at all. The last two need a reason.
const (
	AsWritten How = iota + 1
	Otherwise
	NotDone
)

// Decision is about one command or output of a runbook.
type Decision struct {
	How How
	Why string
}

// Why not as it is written.
const (
	noSystemd  = "a host of the tests has no systemd: the test starts the process, and reads its log"
	eachHasIt  = "each runbook has it"
	otherTests = "another message of an agent; the tests of joining in tests/e2e have each"
	isText     = "names a part of another output, which is seen"
	looksLike  = "how an output looks"
)

// Decisions are by the title of a runbook, and by the text.
func Decisions() map[string]map[string]Decision {
	written := Decision{How: AsWritten}
	service := Decision{Otherwise, noSystemd}
	return map[string]map[string]Decision{
		"": {
			"a4s doctor": {NotDone, eachHasIt},
			"a4s status": {NotDone, eachHasIt},
			"ERROR TITLE (WHAT IT IS ABOUT): DETAIL cause: ... fix: ...": {NotDone, looksLike},
		},
		"A server is down": {
			"a4s status":                     written,
			"a4s doctor":                     written,
			"journalctl -u a4s -n 50":        service,
			"systemctl start a4s":            service,
			downServer:                       written,
			"No a4s runs on this machine.":   written,
			"Pods run although a4s does not": written,
			"ERROR The API server does not answer this node: ...": written,
			"WARNING One of several servers does not answer this node (...): ...": {NotDone,
				"it is there for seconds, until the server leaves the list of servers"},
			"API: ready": written,
			"Ready":      written,
		},
		"The majority of servers is lost": {
			"a4s doctor":                 written,
			"a4s server --cluster-reset": written,
			"systemctl start a4s":        service,
			"a4s etcd-member list":       written,
			"ERROR The datastore does not answer: ... cause: its disk hangs or is full, or its process or its " +
				"majority is gone": written,
			"The datastore still waits: most of its servers have to run. If they are lost for good, start one with " +
				"--cluster-reset": written,
			"This server is the only one of its cluster now": written,
		},
		"A disk is full": {
			"a4s doctor": written,
			"du -xsh /var/lib/a4s/* /var/lib/a4s/agent/* /var/log/* 2>/dev/null | " +
				"sort -h | tail": written,
			"ls -d /var/lib/a4s/server-before-restore-* " +
				"/var/lib/a4s/server-tls-before-rotation-*": written,
			"a4s etcd-snapshot list": written,
			"a4s etcd-snapshot prune --name etcd-snapshot --etcd-snapshot-retention 1": written,
			"a4s etcd-snapshot delete NAME":                                            written,
			"a4s ctr images ls":                                                        written,
			"a4s ctr images rm NAME":                                                   written,
			"systemctl start a4s":                                                      service,
			"ERROR The disk of the data directory is full (/var/lib/a4s): 90 MiB of 40000 MiB are free": written,
			"The disk of the data directory is almost full":                                             written,
			"no space left on device": written,
			"DiskFullSolved":          written,
		},
		"The datastore is full": {
			"a4s doctor": written,
			"a4s kubectl get tenants -o " +
				`'custom-columns=NAME:.metadata.name,BYTES:.status.usage[?(@.name=="bytes")].used'`: written,
			"a4s kubectl --tenant NAME delete ...":       written,
			"etcd-arg: - quota-backend-bytes=8589934592": written,
			"ERROR The datastore is full: it takes no more writes: 4096 of 4096 MiB, of which 3900 MiB hold " +
				"something": written,
			"The datastore is almost full": written,
		},
		"Certificates have expired": {
			"a4s doctor":                  written,
			"a4s certificate check":       written,
			"date":                        written,
			"systemctl restart a4s":       service,
			"a4s token create":            written,
			"systemctl restart a4s-agent": service,
			"a4s tenant kubeconfig NAME --output FILE":   written,
			"ERROR A certificate has expired (...): ...": written,
			"expired": written,
			"ok":      written,
		},
		"A node does not join": {
			"curl -k https://SERVER:6443/cacerts":               written,
			"a4s token create":                                  written,
			"a4s doctor":                                        written,
			"a4s kubectl get nodes":                             written,
			"waiting for the server to let this node join: ...": written,
			"--token:":                                          written,
			"--server:":                                         {NotDone, otherTests},
			"--node-name:":                                      {NotDone, otherTests},
			"joined the cluster":                                written,
			"Ready":                                             written,
		},
		"A tenant stays in Terminating": {
			"a4s tenant delete team-a": written,
			"a4s kubectl get tenant team-a -o " +
				`jsonpath='{.status.conditions[?(@.type=="SpaceEmpty")].message}'`: written,
			"a4s kubectl describe pv":      written,
			"a4s kubectl delete node NAME": {NotDone, "the node is up, and what holds the tenant is not there"},
			"a4s kubectl --tenant team-a patch KIND NAME -n NAMESPACE --type merge -p " +
				`'{"metadata":{"finalizers":null}}'`: written,
			"a4s tenant delete team-a --force":                       written,
			"tenant team-a is being deleted already waiting for ...": written,
			"SpaceEmpty": {NotDone, isText},
			"waiting for the end of ... is held by FINALIZER (set by MANAGER) ...; the workloads of the tenant run " +
				"until ..., because its operators may be what takes finalizers off": written,
			"tenant team-a deleted": written,
		},
		"A partition is away": {
			"a4s doctor":                       written,
			"a4s partition list":               written,
			"a4s partition evict rp4":          written,
			"a4s partition remove NAME --lost": written,
			"WARNING A partition of the cluster does not answer (tp2): ...": written,
			"away":                                 written,
			"A resource partition does not answer": written,
			"Do its servers answer? (a4s partition list: ready or partly) yes -> a4s node drain NODE... evicts, " +
				"within PodDisruptionBudgets no -> Do the machines of its nodes run? yes, or you do not know -> are " +
				"they cut off for good, with the power or at the switch? no -> WAIT, or switch them off first. A " +
				"pod would run twice. yes -> a4s partition evict NAME no, they are off -> " +
				"a4s partition evict NAME": {NotDone, "the decision, whose last line the test follows"},
			"partition main: 12 pods on 3 nodes deleted, " +
				"2 left that belong to their nodes": written,
			"ready":  written,
			"evict":  {NotDone, isText},
			"remove": {NotDone, isText},
		},
		"A service group is away": {
			"a4s doctor":                  written,
			"a4s groups list":             written,
			"a4s groups drain 1":          written,
			"a4s groups drain 1 --undo":   written,
			"a4s kubectl delete dpc NAME": written,
			"a4s kubectl -n kube-system delete lease a4s-server-NAME": written,
			"WARNING A service group has no server that runs (1): " +
				"its configuration is group-1": written,
			"0/1":      written,
			"(behind)": {NotDone, "the test waits until no row has it"},
		},
	}
}

const downServer = "a4s: server https://127.0.0.1:6443: not running: connection refused: start it with " +
	`"a4s server"; ...`
