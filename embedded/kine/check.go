package kine

import (
	"context"
	cryptotls "crypto/tls"
	"database/sql"
	"errors"
	"net"
	"net/url"
	"strings"
	"time"

	mysqldriver "github.com/go-sql-driver/mysql"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/k3s-io/kine/pkg/tls"

	"github.com/a4s-io/a4s/internal/dsn"
	"github.com/a4s-io/a4s/internal/problem"
)

// checkTimeout bounds one connection.
const checkTimeout = 10 * time.Second

// What databases answer when the one that is asked for is not there; kine
// makes it.
const (
	postgresNoDatabase = "3D000"
	mysqlNoDatabase    = 1049
)

// Check finds out whether the database can be used: a file is read, a server
// is asked to let a4s in. kine would try for minutes and only log why.
func (s *Server) Check(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, checkTimeout)
	defer cancel()
	var err error
	switch s.opts.Endpoint.Kind {
	case dsn.SQLite:
		return s.checkSQLite(ctx)
	case dsn.Postgres:
		err = s.checkPostgres(ctx)
	case dsn.MySQL:
		err = s.checkMySQL(ctx)
	case dsn.NATS:
		err = s.checkNATS(ctx)
	}
	if err == nil {
		return nil
	}
	var refused *pgconn.PgError
	var refusedToo *mysqldriver.MySQLError
	fix := "start the database, or set the address at which this machine reaches it"
	if errors.As(err, &refused) || errors.As(err, &refusedToo) {
		fix = "set user and password that the database lets in, and let it in from this machine"
	}
	return &problem.Precondition{What: s.What(), Err: s.opts.Endpoint.Safe(err), Fix: fix}
}

func (s *Server) checkPostgres(ctx context.Context) error {
	// As kine reads it: files of TLS that are not in the address are added.
	u, err := url.Parse("postgres://" + s.opts.Endpoint.Source)
	if err != nil {
		return err
	}
	if strings.Trim(u.Path, "/") == "" {
		u.Path = "/kubernetes"
	}
	query := u.Query()
	for name, value := range map[string]string{"sslcert": s.opts.CertFile, "sslkey": s.opts.KeyFile,
		"sslrootcert": s.opts.CAFile} {
		if value == "" || query.Has(name) {
			continue
		}
		query.Set(name, value)
		if !query.Has("sslmode") {
			query.Set("sslmode", "verify-full")
		}
	}
	u.RawQuery = query.Encode()
	cfg, err := pgx.ParseConfig(u.String())
	if err != nil {
		return err
	}
	conn, err := pgx.ConnectConfig(ctx, cfg)
	var refused *pgconn.PgError
	if errors.As(err, &refused) && refused.Code == postgresNoDatabase {
		return nil
	}
	if err != nil {
		return err
	}
	return conn.Close(ctx)
}

func (s *Server) checkMySQL(ctx context.Context) (err error) {
	source := s.opts.Endpoint.Source
	if source == "" {
		source = "root@unix(/var/run/mysqld/mysqld.sock)/"
	}
	cfg, err := mysqldriver.ParseDSN(source)
	if err != nil {
		return err
	}
	secure, err := (tls.Config{CAFile: s.opts.CAFile, CertFile: s.opts.CertFile,
		KeyFile: s.opts.KeyFile}).ClientConfig()
	if err != nil {
		return err
	}
	if secure != nil {
		secure.MinVersion = cryptotls.VersionTLS12
		cfg.TLS = secure
	}
	connector, err := mysqldriver.NewConnector(cfg)
	if err != nil {
		return err
	}
	db := sql.OpenDB(connector)
	defer func() { err = errors.Join(err, db.Close()) }()
	err = db.PingContext(ctx)
	var refused *mysqldriver.MySQLError
	if errors.As(err, &refused) && refused.Number == mysqlNoDatabase {
		return nil
	}
	return err
}

// checkNATS asks whether one of the servers answers. Whether it lets a4s in is
// what the start finds out at once.
func (s *Server) checkNATS(ctx context.Context) error {
	var errs []error
	for one := range strings.SplitSeq("nats://"+s.opts.Endpoint.Source, ",") {
		u, err := url.Parse(one)
		if err != nil || u.Host == "" {
			return nil // a context file names the servers
		}
		port := u.Port()
		if port == "" {
			port = "4222"
		}
		conn, err := (&net.Dialer{}).DialContext(ctx, "tcp", net.JoinHostPort(u.Hostname(), port))
		if err == nil {
			return conn.Close()
		}
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}
