package instance

import (
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/a4s-io/a4s/internal/atomicfile"
	"github.com/a4s-io/a4s/internal/pki"
	"github.com/a4s-io/a4s/internal/problem"
)

// NodeIDFile keeps the id of --with-node-id.
const NodeIDFile = "/etc/a4s/node/id"

// idBytes is the length of a node id before hex encoding.
const idBytes = 4

// ChooseNodeName returns the node name: name if it is set, the host name otherwise,
// followed by the machine's persistent id if withID is set.
func ChooseNodeName(name string, withID bool, idFile string) (string, error) {
	source := "--node-name"
	if name == "" {
		host, err := os.Hostname()
		if err != nil {
			return "", &problem.Precondition{What: "host name", Err: err,
				Fix: "set one, or give a name with --node-name"}
		}
		name, source = strings.ToLower(host), "host name"
	}
	if withID {
		id, err := ensureID(idFile)
		if err != nil {
			return "", err
		}
		name += "-" + id
	}
	if errs := validation.IsDNS1123Subdomain(name); len(errs) > 0 {
		return "", &problem.Input{Source: source, Value: name, Err: errors.New(errs[0]),
			Want: "a DNS name in lower case; --node-name sets another"}
	}
	return name, nil
}

// CheckNodeName refuses a name that only follows a new host name of a machine that is
// a node by another one already: there would be a second node, and nobody had asked for
// it. certFile is the node's client certificate, given whether the name was set. It
// returns the name that a set one replaces, "" if there is none.
func CheckNodeName(name string, given bool, certFile string) (former string, err error) {
	cert, err := pki.ReadCert(certFile)
	if errors.Is(err, fs.ErrNotExist) {
		return "", nil // it has not joined
	}
	if err != nil {
		return "", nil // who needs the certificate says what is wrong with it
	}
	former, ok := strings.CutPrefix(cert.Subject.CommonName, pki.NodeUserPrefix)
	if !ok || former == name {
		return "", nil
	}
	if given {
		return former, nil
	}
	return "", &problem.Precondition{What: "host name",
		Err: fmt.Errorf("this machine is node %s of the cluster, and would join again as %s", former, name),
		Fix: fmt.Sprintf("keep the node with --node-name %s; or make it another one with --node-name %s, "+
			"and delete node %s", former, name, former)}
}

func ensureID(path string) (string, error) {
	data, err := os.ReadFile(path)
	if err == nil {
		if id := strings.TrimSpace(string(data)); id != "" {
			return id, nil
		}
	} else if !errors.Is(err, fs.ErrNotExist) {
		return "", &problem.Precondition{What: path, Err: err, Fix: "make it readable for root or remove it"}
	}
	raw := make([]byte, idBytes)
	if _, err := rand.Read(raw); err != nil {
		return "", fmt.Errorf("making a node id: %w", err)
	}
	id := hex.EncodeToString(raw)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return "", &problem.Precondition{What: path, Err: err, Fix: "make /etc writable or leave --with-node-id out"}
	}
	if err := atomicfile.Write(path, []byte(id+"\n"), 0o600); err != nil {
		return "", &problem.Precondition{What: path, Err: err, Fix: "make /etc writable or leave --with-node-id out"}
	}
	return id, nil
}
