package cmd

import (
	"bytes"
	"errors"
	"io"
	"reflect"
	"strings"
	"testing"
	"time"
	"unicode"
	"unicode/utf8"

	corev1 "k8s.io/api/core/v1"

	"github.com/a4s-io/a4s/cmd/checkconfig"
	"github.com/a4s-io/a4s/cmd/tenantadmin"
	"github.com/a4s-io/a4s/internal/joinapi"
	"github.com/a4s-io/a4s/internal/noderuntime"
	"github.com/a4s-io/a4s/internal/problem"
	"github.com/a4s-io/a4s/internal/tenantapi"
	"github.com/a4s-io/a4s/server/datastore/snapshots/archive"
)

// forTerminals is what a tenant would have a terminal obey: it clears the screen,
// sets the title, turns the direction, and forges a line and a column.
const forTerminals = "m\x1b[2J\x1b]0;t\x07\u009b1m\u202e\r\u2028w\nroot\tok\xff"

// filled is a T with text in every field that has one, and one of everything.
func filled[T any](text string) T {
	var out T
	fill(reflect.ValueOf(&out).Elem(), text, 0)
	return out
}

func fill(v reflect.Value, text string, depth int) {
	if depth > 12 || !v.CanSet() {
		return
	}
	if v.Type() == reflect.TypeFor[error]() {
		v.Set(reflect.ValueOf(errors.New(text)))
		return
	}
	switch v.Kind() {
	case reflect.String:
		v.SetString(text)
	case reflect.Bool:
		v.SetBool(true)
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		fill(v.Elem(), text, depth+1)
	case reflect.Struct:
		for i := range v.NumField() {
			fill(v.Field(i), text, depth+1)
		}
	case reflect.Slice:
		if v.Type().Elem().Kind() == reflect.Uint8 {
			v.SetBytes([]byte(text))
			return
		}
		v.Set(reflect.MakeSlice(v.Type(), 1, 1))
		fill(v.Index(0), text, depth+1)
	case reflect.Map:
		key, value := reflect.New(v.Type().Key()).Elem(), reflect.New(v.Type().Elem()).Elem()
		fill(key, text, depth+1)
		fill(value, text, depth+1)
		v.Set(reflect.MakeMap(v.Type()))
		v.SetMapIndex(key, value)
	}
}

// obeyed are the characters in an output that a terminal may do something by.
func obeyed(out string) string {
	if !utf8.ValidString(out) {
		return out
	}
	return strings.Map(func(r rune) rune {
		if r == '\n' || unicode.IsGraphic(r) {
			return -1
		}
		return r
	}, out)
}

// TestWallW15Terminals: what tenants and others put into objects and answers is
// shown by every command of a4s itself, and a terminal obeys none of it; nor can it
// pass for another line or column of a table.
func TestWallW15Terminals(t *testing.T) {
	now := time.Unix(1e9, 0)
	tables := map[string]func(w io.Writer, text string) error{
		"status": func(w io.Writer, x string) error { s := filled[status](x); return writeStatus(w, &s, true, now) },
		"status, down": func(w io.Writer, x string) error {
			return writeStatus(w, &status{NotReady: x, NodesError: x, TenantsError: x, PartitionsError: x}, false, now)
		},
		"top tenants": func(w io.Writer, x string) error {
			use := filled[joinapi.TenantUse](x)
			return writeTenantUse(w, x, &use, 1)
		},
		"doctor": func(w io.Writer, x string) error {
			f := filled[diagnosis](x)
			return f.report(w, "table")
		},
		"check-config": func(w io.Writer, x string) error {
			return report(w, []checkconfig.Result{filled[checkconfig.Result](x)})
		},
		"bootstrap list": func(w io.Writer, x string) error {
			return writePods(w, []corev1.Pod{filled[corev1.Pod](x)}, now)
		},
		"certificate check": func(w io.Writer, x string) error {
			return writeCertificates(w, []certificate{filled[certificate](x)}, "table", now)
		},
		"etcd-snapshot list": func(w io.Writer, x string) error {
			readable := filled[archive.Entry](x)
			readable.Err = nil
			return writeSnapshots(w, []archive.Entry{filled[archive.Entry](x), readable})
		},
		"runtime list": func(w io.Writer, x string) error {
			return writeRuntimeStates(w, []noderuntime.State{filled[noderuntime.State](x)}, false, now)
		},
		"secrets-encrypt status": func(w io.Writer, x string) error {
			s := filled[joinapi.EncryptionStatus](x)
			return errors.Join(writeEncryption(w, &s), warn(w, []string{x}))
		},
		"token list": func(w io.Writer, x string) error {
			return writeTokens(w, []corev1.Secret{filled[corev1.Secret](x)}, now)
		},
		"groups list": func(w io.Writer, x string) error { g := filled[tenantadmin.Groups](x); return g.Write(w) },
		"groups move": func(w io.Writer, x string) error {
			m := filled[tenantadmin.Move](x)
			return m.Write(w, "moved")
		},
		"partition list": func(w io.Writer, x string) error {
			return tenantadmin.WritePartitions(w, []tenantadmin.Partition{filled[tenantadmin.Partition](x)})
		},
	}
	for _, format := range []string{"table", "wide", "name"} {
		write, _ := tenantadmin.Writer(format)
		tables["tenant list, "+format] = func(w io.Writer, x string) error {
			list := filled[tenantapi.TenantList](x)
			list.Items[0].Status.Conditions[0].Type = tenantapi.SpaceReady
			return write(w, &list)
		}
	}
	for name, write := range tables {
		var harmless, out bytes.Buffer
		// A command may end with an error, which is about the same.
		_, _ = write(&harmless, "x"), write(&out, forTerminals)
		if harmless.Len() == 0 || out.Len() == 0 {
			t.Errorf("%s prints nothing", name)
		}
		if found := obeyed(out.String()); found != "" {
			t.Errorf("%s prints %q in %q", name, found, out.String())
		}
		if got, want := strings.Count(out.String(), "\n"), strings.Count(harmless.String(), "\n"); got != want {
			t.Errorf("%s prints %d lines, not %d: %s", name, got, want, out.String())
		}
	}

	// Whatever else is printed goes through the writers of the commands.
	for _, format := range []string{"json", "yaml"} {
		var out bytes.Buffer
		write, _ := tenantadmin.Writer(format)
		list := filled[tenantapi.TenantList](forTerminals)
		list.Items[0].ManagedFields = nil // it is JSON
		if err := write(problem.Terminal(&out), &list); err != nil {
			t.Errorf("%s: %v", format, err)
		}
		if found := obeyed(out.String()); found != "" {
			t.Errorf("%s has %q", format, found)
		}
	}
	var out, errOut bytes.Buffer
	app := NewApp(Modes{})
	app.Stdout, app.Stderr = &out, &errOut
	if err := app.RunContext(t.Context(), []string{"a4s", "version"}); err != nil {
		t.Fatal(err)
	}
	// All commands have these.
	for _, w := range []io.Writer{app.cli.Writer, app.cli.ErrWriter} {
		if _, err := io.WriteString(w, forTerminals); err != nil {
			t.Fatal(err)
		}
	}
	if found := strings.Trim(obeyed(out.String()+errOut.String()), "\t"); found != "" || errOut.Len() == 0 {
		t.Errorf("commands print %q", found)
	}
}
