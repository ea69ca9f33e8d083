package config

import (
	"path/filepath"
	"slices"
)

// Local is what the short-lived commands want to know about the server or
// agent of this machine.
type Local struct {
	// DataDir is Common.DataDir.
	DataDir string
	// Kubeconfig is Server.WriteKubeconfig.
	Kubeconfig string
	// ConfigFile is Common.ConfigFile.
	ConfigFile string
	// NodeName is Agent.NodeName.
	NodeName string
	// LogFile is Common.LogFile, and PrivateRegistry Agent.PrivateRegistry.
	LogFile, PrivateRegistry string
	// SnapshotDir, SnapshotCompress and SnapshotRetention are those of the
	// server that begin with EtcdSnapshot.
	SnapshotDir       string
	SnapshotCompress  bool
	SnapshotRetention int
	// KubeAPIServerArgs and AuditPolicyFile are those of the server.
	KubeAPIServerArgs []string
	AuditPolicyFile   string
	// S3 is Server.EtcdS3, checked if Source.CheckS3 wants that.
	S3 EtcdS3
}

// LocalSettings is the table of Local: the settings of a server with which
// it shares names, variables and files.
func LocalSettings(l *Local) []Setting {
	var common Common
	var server Server
	var table []Setting
	all := slices.Concat(generalSettings(&common), loggingSettings(&common), controlPlaneSettings(&server),
		upstreamServerSettings(&server))
	for _, s := range append(all, nodeSettings(&server.Agent)...) {
		switch s.Name {
		case "node-name":
			s.target = &l.NodeName
		case "log":
			s.target = &l.LogFile
		case "private-registry":
			s.target = &l.PrivateRegistry
		case "etcd-snapshot-dir":
			s.target = &l.SnapshotDir
		case "etcd-snapshot-compress":
			s.target = &l.SnapshotCompress
		case "etcd-snapshot-retention":
			s.target = &l.SnapshotRetention
		case "kube-apiserver-arg":
			s.target = &l.KubeAPIServerArgs
		case "audit-policy-file":
			s.target = &l.AuditPolicyFile
		case "config":
			s.target = &l.ConfigFile
		case "data-dir":
			s.target = &l.DataDir
		case "write-kubeconfig":
			s.target = &l.Kubeconfig
			s.Default = DefaultKubeconfig
		default:
			continue
		}
		table = append(table, s)
	}
	return append(table, s3Settings(&l.S3)...)
}

// LoadLocal finds out what Local holds, from the same sources as a server
// would. Keys that Local lacks are ignored if a server or an agent knows them.
func LoadLocal(src Source) (*Local, error) {
	out := &Local{}
	others := append(ServerSettings(&Server{}), AgentSettings(&Agent{})...)
	l := loader{command: "a4s server", other: "a4s server", table: LocalSettings(out),
		otherTable: others, ignoreOther: true}
	if err := l.load(src); err != nil {
		return nil, err
	}
	c := &checker{source: l.source}
	c.absolute("data-dir", out.DataDir)
	c.absolute("write-kubeconfig", out.Kubeconfig)
	c.snapshotDir(out.SnapshotDir, out.DataDir)
	if out.SnapshotDir == "" {
		out.SnapshotDir = filepath.Join(out.DataDir, snapshotDirName)
	}
	if src.CheckS3 {
		c.s3(&out.S3)
	}
	out.S3.normalize()
	return out, c.err()
}
