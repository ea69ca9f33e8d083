package kine

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"net/url"
	"os"
	"sync"
	"time"

	"github.com/k3s-io/kine/pkg/drivers"
	"github.com/k3s-io/kine/pkg/drivers/sqlite"
	kineserver "github.com/k3s-io/kine/pkg/server"
	"github.com/sirupsen/logrus"

	"github.com/a4s-io/a4s/internal/problem"
)

// sqliteSource is how the file is opened. A commit is on disk before it is
// acknowledged (kine's own default would lose the last ones with the power),
// and what is deleted can be given back to the file system page by page.
func sqliteSource(path string, params url.Values) string {
	all := url.Values{}
	for name, value := range map[string]string{
		"_journal_mode":    "WAL",
		"_busy_timeout":    "30000",
		"_synchronous":     "FULL",
		"_txlock":          "immediate",
		"_stmt_cache_size": "20",
		"_auto_vacuum":     "incremental",
	} {
		all.Set(name, value)
	}
	for name, values := range params {
		all[name] = values
	}
	// convert does what is left of it to do, and not at every start.
	all.Set("_kine_disable_startup_vacuum", "true")
	return path + "?" + all.Encode()
}

func (s *Server) openSQLite(ctx context.Context, wg *sync.WaitGroup, cfg *drivers.Config) (kineserver.Backend, error) {
	// The driver would make it readable for all.
	f, err := os.OpenFile(s.opts.Path, os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, err
	}
	if err := f.Close(); err != nil {
		return nil, err
	}
	cfg.DataSourceName = sqliteSource(s.opts.Path, s.opts.Endpoint.Params)
	backend, dialect, err := sqlite.NewVariant(ctx, wg, "sqlite3", cfg)
	if err != nil {
		return nil, err
	}
	if err := convert(ctx, dialect.DB, s.log); err != nil {
		return nil, err
	}
	wg.Add(1)
	go func() {
		defer wg.Done()
		s.reclaimAll(ctx, dialect.DB)
	}()
	return backend, nil
}

const incremental = 2

// convert makes a file that cannot shrink one that can.
func convert(ctx context.Context, db *sql.DB, log *logrus.Entry) error {
	var mode int
	if err := db.QueryRowContext(ctx, "PRAGMA auto_vacuum").Scan(&mode); err != nil {
		return fmt.Errorf("asking SQLite how it frees space: %w", err)
	}
	if mode == incremental {
		return nil
	}
	log.Info("Rewriting the SQLite database once, so that it can shrink from now on")
	conn, err := db.Conn(ctx)
	if err != nil {
		return err
	}
	_, err = conn.ExecContext(ctx, "PRAGMA auto_vacuum = INCREMENTAL; VACUUM")
	// With a full disk it stays as it is, which is no reason not to start.
	if err != nil {
		log.WithError(err).
			Warn("Rewriting the SQLite database failed; it does not shrink until a start has room for a copy of it")
	}
	return conn.Close()
}

// minFree is how many free pages are kept: they are used again soon.
const minFree = 256

// reclaimAll gives back free pages from time to time.
func (s *Server) reclaimAll(ctx context.Context, db *sql.DB) {
	tick := time.NewTicker(s.opts.ReclaimInterval)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		if err := reclaim(ctx, db); err != nil && ctx.Err() == nil {
			s.log.WithError(err).Warn("The SQLite database was not made smaller")
		}
	}
}

// reclaim gives free pages back to the file system, some at a time so that no
// writer waits long, and then the log of the file.
func reclaim(ctx context.Context, db *sql.DB) error {
	var last int64
	for {
		var free int64
		if err := db.QueryRowContext(ctx, "PRAGMA freelist_count").Scan(&free); err != nil {
			return err
		}
		if free <= minFree || free == last {
			break
		}
		last = free
		if err := each(ctx, db, "PRAGMA incremental_vacuum(1000)"); err != nil {
			return err
		}
	}
	// Writers put their changes at the end of the log, which is only cut off
	// here: what a compaction wrote would otherwise stay as long as the server
	// runs. Readers can be in the way; then the next time does it.
	return each(ctx, db, "PRAGMA wal_checkpoint(TRUNCATE)")
}

// each takes every row of a statement that works row by row.
func each(ctx context.Context, db *sql.DB, statement string) (err error) {
	rows, err := db.QueryContext(ctx, statement)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, rows.Close()) }()
	for rows.Next() {
	}
	return rows.Err()
}

// CopySQLite writes what the file of SQLite has to a new file at path, while no
// server uses it. There is nothing to write if Options name no file, or one that is
// not there yet: it tells.
func (s *Server) CopySQLite(ctx context.Context, path string) (_ bool, err error) {
	if s.opts.Path == "" {
		return false, nil
	}
	if info, err := os.Stat(s.opts.Path); errors.Is(err, os.ErrNotExist) || err == nil && info.Size() == 0 {
		return false, nil
	}
	// Not read-only: what a killed server left in the log belongs to it.
	db, err := sql.Open("sqlite3",
		(&url.URL{Scheme: "file", Path: s.opts.Path, RawQuery: "mode=rw&_busy_timeout=5000"}).String())
	if err != nil {
		return false, err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	// SQLite takes an empty file, but would make one that all can read.
	out, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return false, err
	}
	_, err = db.ExecContext(ctx, "VACUUM INTO ?", path)
	if err = errors.Join(err, out.Sync(), out.Close()); err != nil {
		return false, fmt.Errorf("copying %s: %w", s.opts.Path, errors.Join(err, os.Remove(path)))
	}
	return true, nil
}

// fullCheckLimit is the size in bytes up to which a whole file is checked
// before the start.
const fullCheckLimit = 256 << 20

// checkSQLite reads the file, without changing it.
func (s *Server) checkSQLite(ctx context.Context) error {
	damaged := func(err error) error {
		return &problem.Precondition{What: s.opts.Endpoint.Kind.Title() + " database " + s.opts.Path, Err: err,
			Fix: "if the file is damaged, move it and those beside it that begin with its name away and put back a " +
				"copy that was made while the server was stopped"}
	}
	info, err := os.Stat(s.opts.Path)
	if errors.Is(err, os.ErrNotExist) || err == nil && info.Size() == 0 {
		return nil
	}
	if err != nil {
		return damaged(err)
	}
	db, err := sql.Open("sqlite3",
		(&url.URL{Scheme: "file", Path: s.opts.Path, RawQuery: "mode=ro&_busy_timeout=5000"}).String())
	if err != nil {
		return damaged(err)
	}
	defer db.Close() //nolint:errcheck // it was read only
	check := "PRAGMA schema_version"
	if info.Size() <= fullCheckLimit {
		check = "PRAGMA quick_check(1)"
	}
	var answer string
	if err := db.QueryRowContext(ctx, check).Scan(&answer); err != nil {
		return damaged(err)
	}
	if info.Size() <= fullCheckLimit && answer != "ok" {
		return damaged(errors.New(answer))
	}
	return nil
}
