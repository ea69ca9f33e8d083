package cleanup

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/a4s-io/a4s/agent/network"
)

// cgroupGrace is how long the kernel may take to let go of killed processes.
const cgroupGrace = 5 * time.Second

// podCgroups are the cgroups that pods are in: the kubelet's, and that of the
// VM runtime for machines that are larger than their pod's.
var podCgroups = [...]string{"kubepods", "kubepods.slice", "a4s-vm", "a4svm.slice"}

// removeCgroups deletes the cgroups of our pods in every hierarchy, and the
// trees that these are in when nothing else runs there.
func (k *killer) removeCgroups(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, cgroupGrace)
	defer cancel()
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	removed := 0
	defer func() { k.report(removed, "removed %d cgroups", removed) }()
	for {
		var errs []error
		for _, root := range k.cgroupTrees() {
			// The pods first: what remains then belongs to nobody or to another.
			_ = filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
				if err != nil || !d.IsDir() {
					return nil // it went meanwhile
				}
				if k.pods.hasCgroup(d.Name()) {
					k.sliceDirs = append(k.sliceDirs, path)
					removed += removeTree(path, &errs)
					return filepath.SkipDir
				}
				return nil
			})
			if len(errs) == 0 && !populated(root) {
				removed += removeTree(root, &errs)
			}
		}
		if len(errs) == 0 {
			return nil
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return errors.Join(errs...)
		}
	}
}

// cgroupTrees finds these in each hierarchy: one directory per controller with
// version 1, the tree itself with version 2.
func (k *killer) cgroupTrees() []string {
	hierarchies := []string{k.Cgroup}
	for _, name := range names(k.Cgroup) {
		hierarchies = append(hierarchies, filepath.Join(k.Cgroup, name))
	}
	seen := map[string]bool{}
	var out []string
	for _, h := range hierarchies {
		for _, name := range podCgroups {
			dir := filepath.Join(h, k.CgroupRoot, name)
			real, err := filepath.EvalSymlinks(dir) // cpu is a link to cpu,cpuacct
			if err != nil || seen[real] {
				continue
			}
			seen[real] = true
			out = append(out, real)
		}
	}
	return out
}

// populated reports whether a process is in the tree.
func populated(root string) bool {
	found := false
	_ = filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || d.Name() != "cgroup.procs" {
			return nil
		}
		// Unreadable means a threaded group of version 2; its parent tells.
		if data, err := os.ReadFile(path); err == nil && len(strings.TrimSpace(string(data))) > 0 {
			found = true
			return filepath.SkipAll
		}
		return nil
	})
	return found
}

// removeTree removes a tree of cgroups from the leaves up. Their files cannot
// and need not be deleted.
func removeTree(root string, errs *[]error) int {
	var dirs []string
	_ = filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err == nil && d.IsDir() {
			dirs = append(dirs, path)
		}
		return nil
	})
	removed := 0
	for _, dir := range slices.Backward(dirs) {
		switch err := unix.Rmdir(dir); {
		case err == nil:
			removed++
		case errors.Is(err, unix.ENOENT):
		default:
			*errs = append(*errs, fmt.Errorf("%s: %w", dir, err))
		}
	}
	return removed
}

// cniResult is what the CNI library remembers of one attachment.
type cniResult struct {
	ContainerID string `json:"containerId"`
	NetworkName string `json:"networkName"`
	Config      []byte `json:"config"`
}

// ownResults lists the remembered attachments that were made with our
// address directory: the name of the network alone could be another a4s's.
func (k *killer) ownResults() map[string]cniResult {
	out := map[string]cniResult{}
	for _, name := range names(k.CNIResults) {
		if !strings.HasPrefix(name, network.CNIName+"-") {
			continue
		}
		path := filepath.Join(k.CNIResults, name)
		data, err := os.ReadFile(path)
		if err != nil {
			continue
		}
		var r cniResult
		if json.Unmarshal(data, &r) != nil || r.NetworkName != network.CNIName {
			continue
		}
		if strings.Contains(string(r.Config), `"`+network.IPAMDir(k.DataDir)+`"`) {
			out[path] = r
		}
	}
	return out
}

// sandboxIDs are the ids of our pods' sandboxes, which mark host port rules.
func (k *killer) sandboxIDs() []string {
	ids := names(filepath.Join(k.DataDir, "agent", "containerd", "io.containerd.grpc.v1.cri", "sandboxes"))
	ids = append(ids, names(filepath.Join(k.RunDir, "containerd", "io.containerd.runtime.v2.task", "k8s.io"))...)
	for _, r := range k.ownResults() {
		ids = append(ids, r.ContainerID)
	}
	slices.Sort(ids)
	return slices.Compact(ids)
}

func (k *killer) removeFiles(context.Context) error {
	var errs []error
	results := 0
	for path := range k.ownResults() {
		if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
			errs = append(errs, err)
			continue
		}
		results++
	}
	k.report(results, "removed %d remembered CNI attachments", results)

	logs := 0
	for _, name := range names(k.PodLogs) {
		// <namespace>_<name>_<uid>
		i := strings.LastIndexByte(name, '_')
		if i < 0 || !slices.Contains(k.pods.uids, name[i+1:]) {
			continue
		}
		if err := os.RemoveAll(filepath.Join(k.PodLogs, name)); err != nil {
			errs = append(errs, err)
			continue
		}
		logs++
	}
	for _, name := range names(k.ContLogs) {
		path := filepath.Join(k.ContLogs, name)
		target, err := os.Readlink(path)
		if err != nil || !below(target, k.PodLogs) {
			continue
		}
		if _, err := os.Stat(target); !errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
			errs = append(errs, err)
		}
	}
	k.report(logs, "removed the logs of %d pods", logs)

	for _, dir := range []string{network.IPAMDir(k.DataDir), network.CNIConfDir(k.DataDir), k.RunDir} {
		removed, err := k.removeAll(dir)
		if err != nil {
			errs = append(errs, err)
		}
		if removed {
			k.report(1, "removed %s", dir)
		}
	}
	for _, dir := range []string{k.CNIResults, filepath.Dir(k.CNIResults), k.ContLogs, k.PodLogs} {
		errs = append(errs, removeEmpty(dir))
	}
	return errors.Join(errs...)
}

// removeKubeletSocket removes what device plugins register with, which every
// kubelet has in the same place, unless another kubelet listens there.
func (k *killer) removeKubeletSocket(ctx context.Context) error {
	socket := filepath.Join(k.DevicePlugins, "kubelet.sock")
	conn, err := new(net.Dialer).DialContext(ctx, "unix", socket)
	switch {
	case err == nil:
		return conn.Close()
	case errors.Is(err, fs.ErrNotExist):
	case errors.Is(err, unix.ECONNREFUSED):
		for _, file := range []string{socket, filepath.Join(k.DevicePlugins, "kubelet_internal_checkpoint")} {
			if err := os.Remove(file); err != nil && !errors.Is(err, fs.ErrNotExist) {
				return err
			}
		}
	default:
		return err
	}
	return errors.Join(removeEmpty(k.DevicePlugins), removeEmpty(filepath.Dir(k.DevicePlugins)))
}

// removeEmpty removes a directory that a4s shares with others and that the
// last of them left.
func removeEmpty(dir string) error {
	err := unix.Rmdir(dir)
	for _, stays := range []error{unix.ENOENT, unix.ENOTEMPTY, unix.EEXIST, unix.ENOTDIR, unix.EBUSY} {
		if errors.Is(err, stays) {
			return nil
		}
	}
	if err != nil {
		return fmt.Errorf("%s: %w", dir, err)
	}
	return nil
}
