package health

import (
	"slices"
	"time"
)

// Code names a condition. Codes are part of metrics and of scripts.
type Code string

// The codes.
const (
	ComponentNotReady   Code = "component-not-ready"
	ComponentRestarting Code = "component-restarting"
	ComponentFailing    Code = "component-does-not-start"

	DatastoreUnreachable Code = "datastore-unreachable"
	DatastoreSlow        Code = "datastore-slow"
	DatastoreFull        Code = "datastore-full"
	DatastoreAlmost      Code = "datastore-almost-full"
	SnapshotFailed       Code = "snapshot-failed"
	EncryptionUnfinished Code = "secrets-encryption-unfinished"
	CAsWaiting           Code = "authorities-waiting"

	SchedulerSlow Code = "scheduler-slow"

	ServiceGroupGap     Code = "service-group-gap"
	ServiceGroupOverlap Code = "service-group-overlap"
	// ServiceGroupInterrupted is a move of tenants of which only a part is stored.
	ServiceGroupInterrupted Code = "service-group-move-interrupted"
	ServiceGroupNoOne       Code = "service-group-without-servers"

	NodeNameTaken       Code = "node-name-taken"
	ResourcesUnanswered Code = "resource-partition-unanswered"
	PartitionForgotten  Code = "partition-not-registered"
	TenantNameTaken     Code = "tenant-name-taken"
	TenantMissing       Code = "tenant-missing"
	SharesAwaited       Code = "shares-awaited"
	CopiesBehind        Code = "node-copies-behind"

	PartitionUnreachable Code = "partition-unreachable"
	PartitionServerAway  Code = "partition-server-unreachable"
	PartitionClock       Code = "partition-clock"
	PartitionVersion     Code = "partition-version"
	NodePortsShared      Code = "node-port-ranges-shared"
	NodeRangeUnfit       Code = "node-range-unfit"

	DiskFull      Code = "disk-full"
	DiskAlmost    Code = "disk-almost-full"
	DiskReadOnly  Code = "disk-read-only"
	ClockJumped   Code = "clock-jumped"
	CgroupMissing Code = "cgroup-controllers-missing"
	KernelLimit   Code = "kernel-limit-almost-reached"

	CertificateExpired    Code = "certificate-expired"
	CertificateExpiring   Code = "certificate-expiring"
	CertificateUnreadable Code = "certificate-unreadable"

	ServerUnreachable    Code = "server-unreachable"
	OneServerAway        Code = "one-server-unreachable"
	NodeNotReady         Code = "node-not-ready"
	RuntimeNotReady      Code = "runtime-not-ready"
	RegistriesUnusable   Code = "registries-file-unusable"
	RegistriesWaiting    Code = "registries-credentials-waiting"
	IsolationNotEnforced Code = "isolation-not-enforced"
	PacketFilterDegraded Code = "packet-filter-degraded"
	DNSNotServing        Code = "dns-not-serving"
)

// Severity tells how bad a condition is.
type Severity string

// The severities. Warning is for what works now and may not later, or works
// less well; Error for what does not work.
const (
	Warning Severity = "warning"
	Error   Severity = "error"
)

// Condition is a kind of problem.
type Condition struct {
	Code     Code
	Severity Severity
	// Title is a short sentence of what is wrong. What it is wrong with, and
	// how, are the subject and the detail that it is set with.
	Title string
	// Cause says what it usually comes from, Fix what to do.
	Cause, Fix string
	// DependsOn are conditions that explain this one: while one of them is
	// set, this one is not shown.
	DependsOn []Code
	// TimeToVisible is how long it must hold until it is shown.
	TimeToVisible time.Duration
}

// Conditions is the table, in the order in which problems are shown.
func Conditions() []Condition {
	return []Condition{
		{Code: DiskReadOnly, Severity: Error, Title: "The file system of the data directory is read-only",
			Cause: "the kernel remounts a file system that way after an error of the disk",
			Fix:   "look into dmesg, check the disk, and mount it for writing again"},
		{Code: DiskFull, Severity: Error, Title: "The disk of the data directory is full",
			Cause: "images, logs, snapshots or pods filled it",
			Fix: "free some space: delete snapshots (a4s etcd-snapshot prune --name etcd-snapshot) " +
				"and what does not belong to a4s"},
		{Code: DiskAlmost, Severity: Warning, Title: "The disk of the data directory is almost full",
			Cause:     "images, logs, snapshots or pods fill it; the kubelet evicts pods when a twentieth is left",
			Fix:       "free some space, or move the data directory to a larger disk",
			DependsOn: []Code{DiskFull}, TimeToVisible: 30 * time.Second},
		{Code: DatastoreUnreachable, Severity: Error, Title: "The datastore does not answer",
			Cause:     "its disk hangs or is full, or its process or its majority is gone",
			Fix:       "see the log of component etcd, or of the external datastore",
			DependsOn: []Code{DiskFull, DiskReadOnly}, TimeToVisible: 10 * time.Second},
		{Code: DatastoreFull, Severity: Error, Title: "The datastore is full: it takes no more writes",
			Cause: "objects, or their latest versions, take all of its quota",
			Fix: "delete what takes most (status.usage of the Tenants says whose it is): " +
				"the datastore takes writes again by itself; or raise --etcd-arg quota-backend-bytes",
			DependsOn: []Code{DatastoreUnreachable}},
		{Code: DatastoreAlmost, Severity: Warning, Title: "The datastore is almost full",
			Cause: "objects take most of its quota; tenants that have more than their share cannot write more",
			Fix: "lower limits.bytes of the Tenants whose status.usage says that they take most, " +
				"or raise --etcd-arg quota-backend-bytes",
			DependsOn: []Code{DatastoreUnreachable, DatastoreFull}, TimeToVisible: 30 * time.Second},
		{Code: DatastoreSlow, Severity: Warning, Title: "The datastore is slow",
			Cause: "the disk takes long to flush: another program uses it, " +
				"or it is an SD card or a network file system",
			Fix:       "move the data directory to a faster disk, or what else writes to it away",
			DependsOn: []Code{DatastoreUnreachable}, TimeToVisible: time.Minute},
		{Code: SchedulerSlow, Severity: Warning, Title: "Pods wait long for the scheduler",
			Cause: "it gets too little of the processors: there are more nodes and pods, " +
				"or pods are made faster, than this server can take",
			Fix: "give the server that leads more processors, make fewer pods at a time, " +
				"or give some tenants a partition of their own",
			DependsOn: []Code{DatastoreUnreachable, DatastoreSlow}, TimeToVisible: 30 * time.Second},
		{Code: ServiceGroupGap, Severity: Warning, Title: "No service group owns some tenants",
			Cause:     "the DataPartitionConfigs do not cover all names; the tenants between are cached nowhere",
			Fix:       "a4s groups list; then let a range begin where the one before it ends",
			DependsOn: []Code{DatastoreUnreachable}, TimeToVisible: 30 * time.Second},
		{Code: ServiceGroupOverlap, Severity: Warning, Title: "The ranges of two service groups overlap",
			Cause:     "two DataPartitionConfigs have the same names; the one with the greater start counts",
			Fix:       "a4s groups list; then end the first range where the second begins",
			DependsOn: []Code{DatastoreUnreachable, ServiceGroupInterrupted}, TimeToVisible: 30 * time.Second},
		{Code: ServiceGroupInterrupted, Severity: Warning,
			Title:     "A move of tenants between service groups was interrupted",
			Cause:     "who stored its DataPartitionConfigs ended when only a part was stored",
			Fix:       "a4s groups apply, which goes on with it; with --auto-groups that happens by itself",
			DependsOn: []Code{DatastoreUnreachable}, TimeToVisible: 30 * time.Second},
		{Code: ServiceGroupNoOne, Severity: Warning, Title: "A service group has no server that runs",
			Cause: "its servers are down, or have another --service-group-id; " +
				"others answer for its tenants",
			Fix:       "start one of its servers, or: a4s groups drain GROUP",
			DependsOn: []Code{DatastoreUnreachable}, TimeToVisible: 30 * time.Second},
		{Code: NodeNameTaken, Severity: Error, Title: "Two resource partitions have a node of the same name",
			Cause: "a machine joined one although another has its name; pods go to the node that was there first",
			Fix:   "give one of the machines another name (--node-name) and delete its node"},
		{Code: ResourcesUnanswered, Severity: Warning, Title: "A resource partition does not answer",
			Cause:         "its servers are down, or the network is cut; its pods run on, new ones go elsewhere",
			Fix:           "start its servers, and check that this one reaches them",
			TimeToVisible: 20 * time.Second},
		{Code: PartitionForgotten, Severity: Warning, Title: "The home partition does not know a partition",
			Cause: "home was restored from a snapshot from before it, and its servers have not registered it again; " +
				"all that it has is kept as it was known last",
			Fix: "start its servers and let them reach home; if it is gone for good: " +
				"a4s partition remove NAME --identity ID",
			TimeToVisible: 30 * time.Second},
		{Code: TenantNameTaken, Severity: Error, Title: "Two partitions have a tenant of the same name",
			Cause: "home was restored from a snapshot, and the name was given away before the partition of the " +
				"first one told of it; requests go to the one that its TenantPlacement names",
			Fix: "save what is needed of the one that is not served (/partitions/NAME/tenants/...), and delete one"},
		{Code: TenantMissing, Severity: Error, Title: "A partition does not have a tenant that it should have",
			Cause: "the partition was restored from a snapshot from before the tenant, or home from one from before " +
				"its deletion; its name is nobody else's",
			Fix: "restore a later snapshot, or give the tenant up and free its name (a4s tenant delete NAME) and " +
				"make it again"},
		{Code: SharesAwaited, Severity: Warning, Title: "Nodes wait for partitions to say what they have there",
			Cause: "the partition of the nodes was restored from a snapshot, and one with tenants is down since",
			Fix:   "start that partition, or remove it for good: a4s partition remove", TimeToVisible: time.Minute},
		{Code: CopiesBehind, Severity: Warning, Title: "Nodes of another partition are not all known here",
			Cause: "that partition does not answer, or refuses this one; pods do not go to these nodes",
			Fix:   "see the log of component node-importer", TimeToVisible: time.Minute},
		{Code: PartitionUnreachable, Severity: Warning, Title: "A partition of the cluster does not answer",
			Cause: "its servers are down, the network is cut, or a certificate is refused: a clock is wrong, " +
				"or the CA is not that of the cluster",
			Fix:           "start its servers, and check that this one reaches them",
			TimeToVisible: 20 * time.Second},
		{Code: PartitionServerAway, Severity: Warning, Title: "One of several servers of a partition does not answer",
			Cause: "it is stopped, or the network between is cut; others stand in for it",
			Fix: "start it; the others take it out of the list after a minute, but the last two of the home " +
				"partition: leave it there, or begin it again",
			TimeToVisible: 2 * time.Minute},
		{Code: PartitionClock, Severity: Warning, Title: "The clocks of two servers of the cluster differ",
			Cause: "one of them has no time synchronization",
			Fix:   "let chrony or systemd-timesyncd keep the time on both", TimeToVisible: 30 * time.Second},
		{Code: PartitionVersion, Severity: Warning, Title: "Partitions have different versions of Kubernetes",
			Cause: "one was upgraded and the other was not",
			Fix:   "upgrade the older one", TimeToVisible: 30 * time.Second},
		{Code: NodePortsShared, Severity: Warning, Title: "Two tenant partitions have the same node ports",
			Cause: "both were begun with the same --service-node-port-range, as by default",
			Fix: "start the servers of one of them again with a --service-node-port-range of its own, and then the " +
				"agents: until then a node port of one is not served on nodes where the other's range counts. " +
				"Services that have a node port outside of the new range keep it; give them another one",
			TimeToVisible: 30 * time.Second},
		{Code: NodeRangeUnfit, Severity: Error, Title: "A node has a range of pods that it cannot have",
			Cause: "the Node is of a time before ranges were looked at, or --cluster-cidr was changed since",
			Fix: "delete the Node and start its agent again, with its token: it gets another range; " +
				"delete the pods that run on it"},
		{Code: CertificateExpired, Severity: Error, Title: "A certificate has expired",
			Cause: "it could not be renewed in time, or the clock is wrong",
			Fix: "check the clock and restart a4s, which renews them at its start; " +
				"while it runs: a4s certificate rotate"},
		{Code: CertificateExpiring, Severity: Warning, Title: "A certificate is about to expire",
			Cause: "renewing it failed, or it is that of a CA in its last year",
			Fix: "see the log for the reason; a4s certificate rotate renews all but CAs, " +
				"which a4s certificate rotate-ca replaces",
			DependsOn: []Code{CertificateExpired}},
		{Code: CertificateUnreadable, Severity: Error, Title: "A certificate cannot be read",
			Cause: "the file is damaged or gone",
			Fix:   "restore it from a backup or a snapshot"},
		{Code: ClockJumped, Severity: Warning, Title: "The clock was set by more than a few seconds",
			Cause: "time synchronization set it at once, or the machine was suspended",
			Fix:   "let chrony or systemd-timesyncd keep the time, and correct it in small steps"},
		{Code: ServerUnreachable, Severity: Error, Title: "The API server does not answer this node",
			Cause:     "it is stopped, the network between is cut, or its certificate is not trusted here",
			Fix:       "check that the server runs and that this machine reaches its port",
			DependsOn: []Code{DatastoreUnreachable}, TimeToVisible: 20 * time.Second},
		{Code: OneServerAway, Severity: Warning, Title: "One of several servers does not answer this node",
			Cause:     "it is stopped, or the network between is cut; the others stand in for it",
			Fix:       "start it, or remove it from the cluster",
			DependsOn: []Code{ServerUnreachable}, TimeToVisible: 20 * time.Second},
		{Code: RuntimeNotReady, Severity: Error, Title: "A container or VM runtime is not ready",
			Cause:     "it is starting, has crashed, or waits for the pod network",
			Fix:       "see its log: agent/containerd/containerd.log in the data directory for containerd",
			DependsOn: []Code{DiskFull, DiskReadOnly}, TimeToVisible: 15 * time.Second},
		{Code: RegistriesUnusable, Severity: Error, Title: "The registries file cannot be used",
			Cause: "it has a mistake since it was changed; what it said before holds, until a4s starts again",
			Fix:   "correct what the detail names: it is read again at once"},
		{Code: RegistriesWaiting, Severity: Warning, Title: "Credentials of registries wait for a restart",
			Cause: "they were changed in the registries file; containerd reads them when it starts, all else at once",
			Fix:   "restart a4s on this node; pods run on"},
		{Code: NodeNotReady, Severity: Error, Title: "The node is not ready for pods",
			Cause:         "what the kubelet says is in the detail",
			Fix:           "see the log of component kubelet",
			DependsOn:     []Code{ServerUnreachable, RuntimeNotReady, DiskFull, DiskReadOnly},
			TimeToVisible: 30 * time.Second},
		{Code: IsolationNotEnforced, Severity: Error,
			Title:         "The rules that keep the pods of tenants apart are not up to date",
			Cause:         "the packet filter refuses them, or no server tells whose addresses are whose",
			Fix:           "see the log of component isolation; new pods of tenants are not started meanwhile",
			DependsOn:     []Code{ServerUnreachable},
			TimeToVisible: 10 * time.Second},
		{Code: DNSNotServing, Severity: Error, Title: "The cluster DNS of this node does not answer",
			Cause:     "its component is restarting, or something else holds its address",
			Fix:       "see the log of component dns",
			DependsOn: []Code{ServerUnreachable}, TimeToVisible: 20 * time.Second},
		{Code: CgroupMissing, Severity: Error, Title: "Control groups that containers need are missing",
			Cause: "the kernel or the machine's container does not offer them",
			Fix:   "a4s check-config says which, and how to enable them"},
		{Code: KernelLimit, Severity: Warning, Title: "A limit of the kernel that all pods share is almost reached",
			Cause: "programs of the machine, or one of its pods, take most of it; others get errors " +
				"when it is reached",
			Fix: "raise it with the command in the detail, and for good in /etc/sysctl.d; without " +
				"--leave-kernel-limits a4s raises such limits at its start"},
		{Code: PacketFilterDegraded, Severity: Warning, Title: "Services use iptables instead of nftables",
			Cause: "the kernel or the program nft is too old or missing",
			Fix:   "install nftables 1.0.1 or newer on a kernel 5.13 or newer; a4s then uses it at its next start"},
		{Code: ComponentNotReady, Severity: Error, Title: "A component is not ready",
			Cause:         "what it waits for is not there, or it does not start",
			Fix:           "see the log of that component",
			DependsOn:     []Code{DatastoreUnreachable, ServerUnreachable, RuntimeNotReady, DiskFull, DiskReadOnly},
			TimeToVisible: 2 * time.Minute},
		{Code: ComponentFailing, Severity: Error, Title: "A component ends each time it is started",
			Cause:     "the detail is the error that it ended with the last time",
			Fix:       "mend what the error names, or see the log of that component; it is started again by itself",
			DependsOn: []Code{DatastoreUnreachable, ServerUnreachable, RuntimeNotReady, DiskFull, DiskReadOnly}},
		{Code: ComponentRestarting, Severity: Warning, Title: "A component ended and was started again",
			Cause: "the detail is the error that it ended with",
			Fix:   "see the log of that component"},
		{Code: SnapshotFailed, Severity: Warning, Title: "The last scheduled snapshot failed",
			Cause:     "the disk or the storage of snapshots is full or not reachable",
			Fix:       "a4s etcd-snapshot save shows the error and, when it works, the next one will",
			DependsOn: []Code{DatastoreUnreachable, DiskFull, DiskReadOnly}},
		{Code: EncryptionUnfinished, Severity: Warning, Title: "A rotation of the key of Secrets was interrupted",
			Cause: "the server stopped in the middle, or a Secret could not be rewritten",
			Fix:   "a4s secrets-encrypt rotate goes on with it", TimeToVisible: 5 * time.Second},
		{Code: CAsWaiting, Severity: Warning, Title: "New CAs wait for a restart of this server",
			Cause: "a4s certificate rotate-ca was run, and a server takes what it makes at its start",
			Fix:   "restart a4s on this machine"},
	}
}

// conditionOf returns the condition of a code.
func conditionOf(table []Condition, code Code) (Condition, int) {
	i := slices.IndexFunc(table, func(c Condition) bool { return c.Code == code })
	if i < 0 {
		return Condition{Code: code, Severity: Error, Title: string(code)}, len(table)
	}
	return table[i], i
}
