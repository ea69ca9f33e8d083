package dsn

import (
	"context"
	"fmt"
	"strings"
	"testing"
)

func TestEndpoints(t *testing.T) {
	for value, want := range map[string]string{
		"":                                      "embedded etcd",
		"https://a:2379,https://b:2379":         "external etcd at https://a:2379, https://b:2379",
		"http://127.0.0.1:2379/":                "external etcd at http://127.0.0.1:2379",
		"sqlite":                                "SQLite",
		"sqlite://":                             "SQLite",
		"sqlite:///var/db/x.db?_busy_timeout=1": "SQLite in /var/db/x.db",
		"postgres://u:p@h:5432/db":              "PostgreSQL at h:5432, database db",
		"postgresql://u@h":                      "PostgreSQL at h, database kubernetes",
		"postgres:///db?host=/run/pg&user=u":    "PostgreSQL at /run/pg, database db",
		"mysql://u:p@ss/w:d@tcp(h:3306)/db?a=b": "MySQL at tcp(h:3306), database db",
		"mysql://root@unix(/run/m.sock)/":       "MySQL at unix(/run/m.sock), database kubernetes",
		"nats://u:p@h1:4222,nats://h2:4222":     "NATS JetStream at h1:4222, h2:4222",
		"nats://?contextFile=/etc/nats.json":    "NATS JetStream",
	} {
		e, err := Parse(value)
		if err != nil {
			t.Errorf("%s: %v", value, err)
			continue
		}
		if e.String() != want {
			t.Errorf("%s: %q, want %q", value, e, want)
		}
	}
}

func TestNoEndpoints(t *testing.T) {
	for _, value := range []string{
		"postgres", "etcd", "redis://h", "https://a", "https://a:2379/x", "https://a:2379,http://b:2379",
		"https://u:hush@a:2379",
		"sqlite://relative.db", "sqlite:///dir/", "postgres://u:hu%sh@h/db", "mysql://u:hush@h:3306/db",
		"mysql://u:hush@tcp(h)",
		"nats://", "nats://h,https://h", "nats://h,nats://u:hush@h", "https://a:2379,",
	} {
		e, err := Parse(value)
		if err == nil {
			t.Errorf("%s is %s", value, e)
		} else if strings.Contains(err.Error(), "hush") || strings.Contains(err.Error(), "hu%sh") {
			t.Errorf("the error gives the password away: %v", err)
		}
	}
}

func TestSecretsAreHidden(t *testing.T) {
	for value, secrets := range map[string][]string{
		"postgres://u:s%40cret@h/db":        {"s@cret", "s%40cret"},
		"postgres://u@h/db?password=s3cret": {"s3cret"},
		"mysql://u:s@c/r:t@tcp(h)/db":       {"s@c/r:t"},
		"nats://tok3n@h":                    {"tok3n"},
		"nats://u:s3cret@h":                 {"s3cret"},
	} {
		e, err := Parse(value)
		if err != nil {
			t.Errorf("%s: %v", value, err)
			continue
		}
		for _, secret := range secrets {
			if got := e.Redact("cannot use " + secret + " at h"); got != "cannot use xxxxx at h" {
				t.Errorf("%s: %s", value, got)
			}
			err := e.Safe(fmt.Errorf("no %s: %w", secret, context.Canceled))
			if !strings.HasPrefix(err.Error(), "no xxxxx: ") {
				t.Errorf("%s: %v", value, err)
			}
			if strings.Contains(fmt.Sprintf("%v %s %q", e, e, e), secret) {
				t.Errorf("%s is shown as %v", value, e)
			}
		}
	}
}
