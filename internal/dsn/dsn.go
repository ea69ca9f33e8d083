package dsn

import (
	"errors"
	"fmt"
	"net/url"
	"path/filepath"
	"slices"
	"strings"
)

// Kind is a kind of datastore.
type Kind string

// The kinds of datastores.
const (
	// Embedded is etcd in the process of the server.
	Embedded Kind = "embedded-etcd"
	// Etcd is one that somebody else runs.
	Etcd     Kind = "etcd"
	SQLite   Kind = "sqlite"
	Postgres Kind = "postgres"
	MySQL    Kind = "mysql"
	NATS     Kind = "nats"
)

// Title is the name of the kind in messages.
func (k Kind) Title() string {
	titles := map[Kind]string{Embedded: "embedded etcd", Etcd: "external etcd", SQLite: "SQLite",
		Postgres: "PostgreSQL", MySQL: "MySQL", NATS: "NATS JetStream"}
	if title, ok := titles[k]; ok {
		return title
	}
	return string(k)
}

// Want says what an endpoint can be.
const Want = "https://HOST:2379[,https://HOST:2379...], sqlite, sqlite:///PATH, " +
	"postgres://USER:PASSWORD@HOST:5432/DATABASE, mysql://USER:PASSWORD@tcp(HOST:3306)/DATABASE or nats://HOST:4222"

// Endpoint is a datastore.
type Endpoint struct {
	Kind Kind
	// URLs are those of an etcd.
	URLs []string
	// Source is what follows the scheme, secrets included, of anything else.
	Source string
	// Path is the file of SQLite, "" for the default, and Params how it is
	// opened.
	Path   string
	Params url.Values

	where   string // to show
	secrets []string
}

// errSyntax stands for the errors of parsers, which repeat what they parse.
var errSyntax = errors.New("it is not such an address; special characters in names and passwords are written as %XX")

// Parse reads an endpoint. "" is embedded etcd. No error repeats the value.
func Parse(value string) (*Endpoint, error) {
	if value == "" {
		return &Endpoint{Kind: Embedded}, nil
	}
	if value == "sqlite" {
		value = "sqlite://"
	}
	scheme, rest, ok := strings.Cut(value, "://")
	if !ok {
		return nil, errors.New("there is no scheme such as postgres:// in it")
	}
	switch scheme {
	case "http", "https":
		return parseEtcd(value)
	case "sqlite":
		return parseSQLite(rest)
	case "postgres", "postgresql":
		return parsePostgres(rest)
	case "mysql":
		return parseMySQL(rest)
	case "nats":
		return parseNATS(rest)
	}
	return nil, fmt.Errorf("unknown scheme %q", scheme)
}

func parseEtcd(value string) (*Endpoint, error) {
	e := &Endpoint{Kind: Etcd}
	var scheme string
	for one := range strings.SplitSeq(value, ",") {
		u, err := url.Parse(strings.TrimSpace(one))
		switch {
		case err != nil:
			return nil, errSyntax
		case u.Scheme != "http" && u.Scheme != "https":
			return nil, errors.New("every address of an etcd begins with https:// or http://")
		case scheme != "" && scheme != u.Scheme:
			return nil, errors.New("https and http are mixed")
		case u.User != nil:
			return nil, errors.New("etcd is not asked with a password; use certificates")
		case u.Hostname() == "" || u.Port() == "":
			return nil, errors.New("an address of an etcd has a host and a port")
		case u.Path != "" && u.Path != "/" || u.RawQuery != "" || u.Fragment != "":
			return nil, errors.New("an address of an etcd has nothing behind its port")
		}
		scheme = u.Scheme
		e.URLs = append(e.URLs, u.Scheme+"://"+u.Host)
	}
	e.where = "at " + strings.Join(e.URLs, ", ")
	return e, nil
}

func parseSQLite(rest string) (*Endpoint, error) {
	path, query, _ := strings.Cut(rest, "?")
	params, err := url.ParseQuery(query)
	if err != nil {
		return nil, errSyntax
	}
	if path != "" && (!filepath.IsAbs(path) || strings.HasSuffix(path, "/")) {
		return nil, errors.New("the file of SQLite has an absolute path")
	}
	e := &Endpoint{Kind: SQLite, Source: rest, Params: params}
	if path != "" {
		e.SetPath(filepath.Clean(path))
	}
	return e, nil
}

// SetPath says which file of SQLite it is.
func (e *Endpoint) SetPath(path string) {
	e.Path = path
	e.where = "in " + path
}

func parsePostgres(rest string) (*Endpoint, error) {
	e := &Endpoint{Kind: Postgres, Source: rest}
	u, err := url.Parse("postgres://" + rest)
	if err != nil {
		return nil, errSyntax
	}
	query, err := url.ParseQuery(u.RawQuery)
	if err != nil {
		return nil, errSyntax
	}
	e.hideUser(u.User, false)
	e.hide(query["password"]...)
	e.hide(query["sslpassword"]...)
	host := u.Host
	if host == "" {
		host = query.Get("host")
	}
	e.where = "at " + or(host, "localhost") + ", database " + or(strings.Trim(u.Path, "/"), "kubernetes")
	return e, nil
}

// parseMySQL reads USER:PASSWORD@NETWORK(ADDRESS)/DATABASE?PARAMS, which is
// not a URL: the password stands as it is.
func parseMySQL(rest string) (*Endpoint, error) {
	e := &Endpoint{Kind: MySQL, Source: rest}
	slash := strings.LastIndex(rest, "/")
	if slash < 0 && rest != "" {
		return nil, errors.New("there is no / before the name of the database in it")
	}
	if rest == "" {
		e.where = "at its local socket, database kubernetes"
		return e, nil
	}
	database, _, _ := strings.Cut(rest[slash+1:], "?")
	address := rest[:slash]
	if at := strings.LastIndex(address, "@"); at >= 0 {
		if _, password, ok := strings.Cut(address[:at], ":"); ok {
			e.hide(password)
		}
		address = address[at+1:]
	}
	if address != "" && !strings.HasSuffix(address, ")") && strings.Contains(address, ":") {
		return nil, errors.New("an address with a port is written as tcp(HOST:PORT)")
	}
	e.where = "at " + or(address, "localhost") + ", database " + or(database, "kubernetes")
	return e, nil
}

func parseNATS(rest string) (*Endpoint, error) {
	e := &Endpoint{Kind: NATS, Source: rest}
	var hosts []string
	for i, one := range strings.Split("nats://"+rest, ",") {
		u, err := url.Parse(one)
		if err != nil || u.Scheme != "nats" {
			return nil, errSyntax
		}
		e.hideUser(u.User, true)
		if i > 0 && u.User != nil {
			return nil, errors.New("user and password stand in the first address only")
		}
		if u.Host == "" && u.Query().Get("contextFile") == "" {
			return nil, errors.New("an address of a NATS server has a host")
		}
		if u.Host != "" {
			hosts = append(hosts, u.Host)
		}
	}
	if len(hosts) > 0 {
		e.where = "at " + strings.Join(hosts, ", ")
	}
	return e, nil
}

func or(value, otherwise string) string {
	if value == "" {
		return otherwise
	}
	return value
}

// hideUser remembers the password of a user, or the user if they have none and is
// a token then.
func (e *Endpoint) hideUser(u *url.Userinfo, token bool) {
	if u == nil {
		return
	}
	if password, ok := u.Password(); ok {
		written, _, _ := strings.Cut(e.Source, "@")
		_, written, _ = strings.Cut(written, ":")
		e.hide(password, url.QueryEscape(password), written)
		return
	}
	if token {
		e.hide(u.Username())
	}
}

func (e *Endpoint) hide(secrets ...string) {
	for _, s := range secrets {
		if s != "" {
			e.secrets = append(e.secrets, s)
		}
	}
	// The longer ones first: one may be part of another.
	slices.SortFunc(e.secrets, func(a, b string) int { return len(b) - len(a) })
}

// String says which datastore it is, without any secret.
func (e *Endpoint) String() string {
	if e.where == "" {
		return e.Kind.Title()
	}
	return e.Kind.Title() + " " + e.Redact(e.where)
}

// Redact takes the secrets of the endpoint out of a text.
func (e *Endpoint) Redact(text string) string {
	for _, s := range e.secrets {
		text = strings.ReplaceAll(text, s, "xxxxx")
	}
	return text
}

// Safe is err without the secrets of the endpoint in its text.
func (e *Endpoint) Safe(err error) error {
	if err == nil || e.Redact(err.Error()) == err.Error() {
		return err
	}
	return &redacted{text: e.Redact(err.Error()), err: err}
}

type redacted struct {
	text string
	err  error
}

func (r *redacted) Error() string { return r.text }

// Is says what it is, without giving the error itself away.
func (r *redacted) Is(target error) bool { return errors.Is(r.err, target) }
