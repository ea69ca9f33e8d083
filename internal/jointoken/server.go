package jointoken

import (
	"crypto/sha256"
	"crypto/subtle"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"github.com/a4s-io/a4s/internal/atomicfile"
	"github.com/a4s-io/a4s/internal/joinapi"
	"github.com/a4s-io/a4s/internal/pki"
	"github.com/a4s-io/a4s/internal/problem"
)

// Names of the token files below the server directory.
const (
	// ServerFile holds the token with which servers and agents join.
	ServerFile = "token"
	// NodeFile is another name of the file whose token agents are to join with:
	// AgentFile if that has one of its own, else ServerFile. The documentation
	// of k3s has taught people to look for it.
	NodeFile = "node-token"
	// AgentFile holds the token with which only agents join.
	AgentFile = "agent-token"
)

// ServerTokens are the tokens that a server accepts. It is safe for
// concurrent use.
type ServerTokens struct {
	dir  string
	hash string

	mu     sync.RWMutex
	server string // password of user "server"
	agent  string // password of user "node"; equal to server if none was set
}

// EnsureServerTokens loads the tokens from dir, the server directory, and
// makes them on first start: from the configured values, or at random. caPEM
// is the server CA bundle that the tokens pin, former are the hashes of those
// that it replaced: configured tokens may still have them.
//
// A configured value that differs from the one on disk is refused: nodes know
// the old one, and only `a4s token rotate` changes it knowingly.
func EnsureServerTokens(dir, server, agent string, caPEM []byte, former ...string) (*ServerTokens, error) {
	hash, err := pki.HashBundle(caPEM)
	if err != nil {
		return nil, err
	}
	t := &ServerTokens{dir: dir, hash: hash}
	if server, err = configured("--token", server, joinapi.UserServer, hash, former); err != nil {
		return nil, err
	}
	if agent, err = configured("--agent-token", agent, joinapi.UserNode, hash, former); err != nil {
		return nil, err
	}
	oldServer, err := t.stored(ServerFile)
	if err != nil {
		return nil, err
	}
	oldAgent, err := t.stored(AgentFile)
	if err != nil {
		return nil, err
	}
	switch {
	case oldServer == "" && server == "":
		t.server = Random()
	case oldServer == "":
		t.server = server
	case server == "" || same(server, oldServer):
		t.server = oldServer
	default:
		return nil, t.differs("--token", ServerFile)
	}
	// Without a server token on disk the first start was cut short.
	separate := oldServer != "" && oldAgent != "" && oldAgent != oldServer
	switch {
	case separate && agent != "" && !same(agent, oldAgent):
		return nil, t.differs("--agent-token", AgentFile)
	case separate:
		t.agent = oldAgent
	case agent != "":
		t.agent = agent
	default:
		t.agent = t.server
	}
	return t, t.write()
}

// configured returns the password in a configured token.
func configured(source, text, user, hash string, former []string) (string, error) {
	if text == "" {
		return "", nil
	}
	t, err := Parse(source, text)
	if err != nil {
		return "", err
	}
	bad := func(format string, args ...any) error {
		return &problem.Input{Source: source, Err: fmt.Errorf(format, args...),
			Want: "a password, or the complete token of this cluster"}
	}
	switch {
	case t.Bootstrap():
		return "", bad("the token has the form of a bootstrap token, which cannot be the token of a server")
	case t.CAHash != "" && t.CAHash != hash && !slices.Contains(former, t.CAHash):
		return "", bad("the token belongs to a cluster whose CA has hash %s, but the CA here has hash %s",
			t.CAHash, hash)
	case t.User != "" && t.User != user:
		return "", bad("the token is for user %q, want %q", t.User, user)
	}
	return t.Password, nil
}

// stored returns the password in a token file, or "" if there is none.
func (t *ServerTokens) stored(name string) (string, error) {
	path := filepath.Join(t.dir, name)
	data, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return "", nil
	}
	if err != nil {
		return "", err
	}
	tok, err := parse(strings.TrimSpace(string(data)))
	if err == nil && tok.Bootstrap() {
		err = errors.New("has the form of a bootstrap token")
	}
	if err != nil {
		return "", &problem.Precondition{What: "token file " + path, Err: err,
			Fix: "restore it from a backup, or write the password that the nodes use into it"}
	}
	return tok.Password, nil
}

func (t *ServerTokens) differs(source, file string) error {
	return &problem.Input{Source: source,
		Err:  fmt.Errorf("the token differs from the one of this cluster in %s", filepath.Join(t.dir, file)),
		Want: "no token, the token in that file, or first `a4s token rotate` to change it"}
}

// write brings the files up to date. Callers hold the lock or own t.
func (t *ServerTokens) write() error {
	for _, f := range []struct{ name, user, password string }{
		// The agent token goes first: a crash in between must not leave a
		// replaced server password behind as a valid agent token.
		{AgentFile, joinapi.UserNode, t.agent},
		{ServerFile, joinapi.UserServer, t.server},
	} {
		path := filepath.Join(t.dir, f.name)
		text := Token{CAHash: t.hash, User: f.user, Password: f.password}.Encode() + "\n"
		if old, err := os.ReadFile(path); err == nil && string(old) == text {
			if err := os.Chmod(path, 0o600); err != nil {
				return err
			}
			continue
		}
		if err := atomicfile.Write(path, []byte(text), 0o600); err != nil {
			return err
		}
	}
	link, want := filepath.Join(t.dir, NodeFile), ServerFile
	if t.agent != t.server {
		want = AgentFile // who is given it is not to join as a server
	}
	if target, err := os.Readlink(link); err == nil && target == want {
		return nil
	}
	if err := os.Remove(link); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return os.Symlink(want, link)
}

// Server returns the token with which servers and agents join.
func (t *ServerTokens) Server() Token {
	t.mu.RLock()
	defer t.mu.RUnlock()
	return Token{CAHash: t.hash, User: joinapi.UserServer, Password: t.server}
}

// Agent returns the token with which only agents join.
func (t *ServerTokens) Agent() Token {
	t.mu.RLock()
	defer t.mu.RUnlock()
	return Token{CAHash: t.hash, User: joinapi.UserNode, Password: t.agent}
}

// Check reports whether user and password are a valid credential. The server
// password is good for user join.UserNode too: its holder may do more anyway.
func (t *ServerTokens) Check(user, password string) bool {
	t.mu.RLock()
	defer t.mu.RUnlock()
	// Both are compared always, so that the time tells nothing.
	isServer, isAgent := same(password, t.server), same(password, t.agent)
	switch user {
	case joinapi.UserServer:
		return isServer
	case joinapi.UserNode:
		return isServer || isAgent
	}
	return false
}

// Rotate replaces the token of user which, join.UserServer or join.UserNode,
// by password, or by a random one if that is empty. It takes effect at once.
// An agent token that was never set apart follows the server token.
func (t *ServerTokens) Rotate(which, password string) (Token, error) {
	const source = "new token"
	if password == "" {
		password = Random()
	}
	tok, err := Parse(source, password)
	if err != nil {
		return Token{}, err
	}
	if tok.CAHash != "" || tok.Bootstrap() {
		return Token{}, &problem.Input{Source: source, Err: errors.New("has the form of a complete token"),
			Want: "a password alone"}
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	oldServer, oldAgent := t.server, t.agent
	switch which {
	case joinapi.UserServer:
		if t.agent == t.server {
			t.agent = password
		}
		t.server = password
	case joinapi.UserNode:
		t.agent = password
	default:
		return Token{}, &problem.Input{Source: "token to rotate", Value: which,
			Want: fmt.Sprintf("%q or %q", joinapi.UserServer, joinapi.UserNode)}
	}
	if err := t.write(); err != nil {
		t.server, t.agent = oldServer, oldAgent
		// Files and memory must agree; the cause is reported either way.
		return Token{}, errors.Join(err, t.write())
	}
	return Token{CAHash: t.hash, User: which, Password: password}, nil
}

// same compares in constant time, also for different lengths.
func same(a, b string) bool {
	x, y := sha256.Sum256([]byte(a)), sha256.Sum256([]byte(b))
	return subtle.ConstantTimeCompare(x[:], y[:]) == 1
}
