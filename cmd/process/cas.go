package process

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/a4s-io/a4s/cmd"
	"github.com/a4s-io/a4s/embedded/etcd"
	"github.com/a4s-io/a4s/internal/instance"
	"github.com/a4s-io/a4s/internal/jointoken"
	"github.com/a4s-io/a4s/internal/pki"
	"github.com/a4s-io/a4s/internal/preflight"
	"github.com/a4s-io/a4s/internal/problem"
	"github.com/a4s-io/a4s/server/datastore"
	"github.com/a4s-io/a4s/server/datastore/snapshots"
)

// rotateCA is `a4s certificate rotate-ca` while no server runs here. It holds
// the lock that a server takes at its start.
func rotateCA(r *cmd.CARotation) (*cmd.CARotated, error) {
	if err := preflight.Root("a4s certificate rotate-ca"); err != nil {
		return nil, err
	}
	lock, err := instance.Acquire(instance.RunDir, r.DataDir)
	if errors.Is(err, instance.ErrRunning) && serverRuns(r.DataDir) {
		return nil, cmd.ErrServerRuns
	}
	if err != nil {
		return nil, err
	}
	defer lock.Release() //nolint:errcheck // the lock ends with the process
	return replaceCAs(r)
}

// serverRuns says whether what holds the lock is a server with the data
// directory.
func serverRuns(dataDir string) bool {
	there, err := instance.Read(instance.RunDir)
	if err != nil || there.DataDir != dataDir {
		return false
	}
	_, err = os.Stat(filepath.Join(dataDir, "server", "tls"))
	return err == nil
}

func replaceCAs(r *cmd.CARotation) (*cmd.CARotated, error) {
	server := filepath.Join(r.DataDir, "server")
	uses, err := datastore.UsesMembers(server)
	switch {
	case err != nil:
		return nil, err
	case uses:
		return nil, &problem.Precondition{What: "certificate authorities",
			Err: errors.New("this server has no member of the datastore (--disable-etcd), and the others would not " +
				"learn of new ones"),
			Fix: "run the command on a server that has one"}
	}
	disk, err := etcd.ReadDisk(filepath.Join(server, snapshots.DatabaseDir, "etcd"))
	if err != nil {
		return nil, err
	}
	if disk != nil && len(disk.Others()) > 0 {
		return nil, &problem.Precondition{What: "certificate authorities",
			Err: fmt.Errorf("the cluster has %d servers, and each has a copy of them", len(disk.Members)),
			Fix: "start a4s on this machine, and run the command again while all servers run"}
	}
	done, err := pki.Rotate(filepath.Join(server, "tls"), pki.RotateOptions{
		From: r.Path, Force: r.Force, Finish: r.Finish,
		Backup: filepath.Join(r.DataDir,
			"server-tls-before-rotation-"+time.Now().UTC().Format("20060102T150405.000Z")),
	})
	if err != nil {
		return nil, err
	}
	out := &cmd.CARotated{Replaced: done.Replaced, Backup: done.Backup}
	files := pki.FilesIn(filepath.Join(server, "tls"))
	ca, err := os.ReadFile(files.ServerCA.Cert)
	if err != nil {
		return nil, err
	}
	former, err := pki.Former(files.FormerCAs)
	if err != nil {
		return nil, err
	}
	tokens, err := jointoken.EnsureServerTokens(server, "", "", ca, former...)
	if err != nil {
		return nil, errors.Join(errors.New("the certificate authorities were replaced, "+
			"but the token files were not; the next start of the server writes them"), err)
	}
	out.Token = tokens.Server().Encode()
	return out, nil
}
