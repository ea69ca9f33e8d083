package localpods

import (
	"encoding/json"
	"errors"
	"io/fs"
	"net/netip"
	"os"
	"path/filepath"
	"time"

	"github.com/sirupsen/logrus"
)

// settled is how old a change must be before another one surely has another
// time.
const settled = 50 * time.Millisecond

// attached is one attachment of a pod to a network.
type attached struct {
	namespace, name, uid string
	at                   time.Time
}

// results reads the directory in which the CNI library has one file for each
// attachment, from before the pod's first process runs until after its last.
type results struct {
	dir     string
	log     *logrus.Entry
	seen    time.Time // when the directory had last changed; zero: read it again
	problem string    // what was last logged
	byAddr  map[netip.Addr]attached
}

// record is the part of the library's file that is read.
type record struct {
	Kind    string      `json:"kind"`
	CNIArgs [][2]string `json:"cniArgs"`
	Result  struct {
		IPs []struct {
			Address netip.Prefix `json:"address"`
		} `json:"ips"`
	} `json:"result"`
}

// refresh reports whether there is something new.
func (r *results) refresh() bool {
	info, err := os.Stat(r.dir)
	if err != nil {
		r.report(err)
		had := len(r.byAddr) > 0
		if errors.Is(err, fs.ErrNotExist) {
			r.byAddr, r.seen = nil, time.Time{}
		}
		return had && len(r.byAddr) == 0
	}
	if !r.seen.IsZero() && info.ModTime().Equal(r.seen) {
		return false
	}
	entries, err := os.ReadDir(r.dir)
	if err != nil {
		r.report(err)
		return false
	}
	r.seen, r.problem = info.ModTime(), ""
	if time.Since(r.seen) < settled {
		r.seen = time.Time{} // the next change may bear the same time
	}
	found := map[netip.Addr]attached{}
	for _, e := range entries {
		a, addrs, err := readRecord(filepath.Join(r.dir, e.Name()))
		if err != nil {
			r.seen = time.Time{} // it may be half written
			continue
		}
		for _, addr := range addrs {
			// A file that was left behind is older than the address's new owner's.
			if old, ok := found[addr]; !ok || a.at.After(old.at) {
				found[addr] = a
			}
		}
	}
	r.byAddr = found
	return true
}

// report logs a problem once. That nothing was attached yet is none.
func (r *results) report(err error) {
	if errors.Is(err, fs.ErrNotExist) || r.problem == err.Error() {
		return
	}
	r.problem = err.Error()
	r.log.WithError(err).Warn("cannot read which pods are attached to the network; new pods are known a little later")
}

// readRecord returns no addresses for an attachment that is not of a pod.
func readRecord(path string) (attached, []netip.Addr, error) {
	info, err := os.Stat(path)
	if errors.Is(err, fs.ErrNotExist) || err == nil && !info.Mode().IsRegular() {
		return attached{}, nil, nil
	}
	if err != nil {
		return attached{}, nil, err
	}
	data, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return attached{}, nil, nil
	}
	if err != nil {
		return attached{}, nil, err
	}
	var rec record
	if err := json.Unmarshal(data, &rec); err != nil {
		return attached{}, nil, err
	}
	a := attached{at: info.ModTime()}
	for _, arg := range rec.CNIArgs {
		switch arg[0] {
		case "K8S_POD_NAMESPACE":
			a.namespace = arg[1]
		case "K8S_POD_NAME":
			a.name = arg[1]
		case "K8S_POD_UID":
			a.uid = arg[1]
		}
	}
	if a.namespace == "" {
		return a, nil, nil
	}
	var addrs []netip.Addr
	for _, ip := range rec.Result.IPs {
		addrs = append(addrs, ip.Address.Addr().Unmap())
	}
	return a, addrs, nil
}
