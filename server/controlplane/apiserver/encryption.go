package apiserver

import (
	"errors"
	"sync"
	"time"

	dto "github.com/prometheus/client_model/go"
	"k8s.io/apiserver/pkg/server/options/encryptionconfig/controller"
	"k8s.io/component-base/metrics/legacyregistry"

	"github.com/a4s-io/a4s/internal/upstreamflags"
)

// keysPoll is how often the API server looks for a change of its encryption
// configuration. A change of the key waits for several of these.
const keysPoll = 2 * time.Second

// readKeysOften shortens upstream's minute, which is a variable of the package,
// before the first API server of the process reads it.
var readKeysOften = sync.OnceFunc(func() { controller.EncryptionConfigFileChangePollDuration = keysPoll })

// configInfo is upstream's metric about the encryption configuration.
const configInfo = "apiserver_encryption_config_controller_last_config_info"

// gatherTimeout bounds how long the metrics of the process may take: parts of
// it, such as a kubelet whose runtime hangs, may not answer.
const gatherTimeout = 10 * time.Second

var errNoMetrics = errors.New("the metrics of this process, which tell what the API server has read, " +
	"cannot be had in time")

// EncryptionHash returns the hash of the encryption configuration that the API
// server of this process works with, "" if there is none.
func EncryptionHash() (string, error) {
	type answer struct {
		families []*dto.MetricFamily
		err      error
	}
	gathered := make(chan answer, 1)
	go func() {
		families, err := legacyregistry.DefaultGatherer.Gather()
		gathered <- answer{families, err}
	}()
	select {
	case a := <-gathered:
		return hashIn(a.families, a.err)
	case <-time.After(gatherTimeout):
		return "", errNoMetrics
	}
}

// hashIn finds the hash, some metrics may be there despite an error.
func hashIn(families []*dto.MetricFamily, err error) (string, error) {
	for _, f := range families {
		if f.GetName() != configInfo {
			continue
		}
		for _, m := range f.GetMetric() {
			for _, l := range m.GetLabel() {
				if l.GetName() == "hash" {
					return l.GetValue(), nil
				}
			}
		}
	}
	return "", err
}

// OwnStorage returns the first of the user's arguments that change where or how
// the API server stores Secrets, "" if none does.
func OwnStorage(args []string) string {
	for _, a := range args {
		switch name := upstreamflags.Name(a); name {
		case "encryption-provider-config", "encryption-provider-config-automatic-reload", "etcd-prefix",
			"etcd-servers", "etcd-servers-overrides":
			return name
		}
	}
	return ""
}
