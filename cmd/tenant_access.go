package cmd

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/urfave/cli/v2"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/a4s-io/a4s/cmd/tenantadmin"
	"github.com/a4s-io/a4s/internal/problem"
	"github.com/a4s-io/a4s/internal/space"
)

// toStdout is the file name that means standard output.
const toStdout = "-"

// accessFlags say whose kubeconfig is made.
func accessFlags() []cli.Flag {
	return []cli.Flag{
		text("user", "", tenantadmin.AdminUser, "`NAME` of the user"),
		texts("group", "", "`NAME` of a group that the user is in; repeat it for more"),
		span("expires", "", year,
			"`DURATION` that the certificate is valid for; the cluster has a maximum", "8760h, a year"),
		text("server", "", "", "`URL` of the API server in the kubeconfig",
			"that of the server for other machines"),
	}
}

// access is what accessFlags say.
type access struct {
	tenantadmin.Identity
	expires time.Duration
	server  string
}

func readAccess(c *call, tenant string) (*access, error) {
	a := &access{
		Identity: tenantadmin.Identity{Tenant: tenant, User: c.String("user"), Groups: c.StringSlice("group")},
		expires:  c.Duration("expires"), server: c.String("server"),
	}
	const reserved = "system:"
	of := func(name string) bool { return strings.HasPrefix(name, space.Organization) }
	switch {
	case a.User == "" || strings.TrimSpace(a.User) != a.User:
		return nil, &problem.Input{Source: "--user", Value: a.User, Want: "the name of a user"}
	case strings.HasPrefix(a.User, reserved):
		return nil, &problem.Input{Source: "--user", Value: a.User,
			Want: `a name that does not begin with "` + reserved + `", which is Kubernetes' own`}
	case of(a.User):
		return nil, &problem.Input{Source: "--user", Value: a.User, Want: "the name alone, without the tenant"}
	case slices.ContainsFunc(a.Groups, of):
		return nil, &problem.Input{Source: "--group", Value: a.Groups[slices.IndexFunc(a.Groups, of)],
			Want: "a group of the tenant; the tenant itself is in the certificate already"}
	case slices.Contains(a.Groups, ""):
		return nil, &problem.Input{Source: "--group", Want: "the name of a group"}
	case a.expires < tenantadmin.MinExpires || a.expires > math.MaxInt32*time.Second:
		return nil, &problem.Input{Source: "--expires", Value: a.expires.String(),
			Want: "at least " + tenantadmin.MinExpires.String()}
	}
	if a.server != "" {
		u, err := url.Parse(a.server)
		if err != nil || u.Scheme != "https" || u.Hostname() == "" || u.RawQuery != "" ||
			u.Fragment != "" || u.User != nil {
			return nil, &problem.Input{Source: "--server", Value: a.server,
				Want: "a URL such as https://192.0.2.10:6443"}
		}
		cluster, of := tenantadmin.SplitAddress(a.server)
		if of != "" && of != tenant {
			return nil, &problem.Input{Source: "--server", Value: a.server,
				Err: fmt.Errorf("it is that of the tenant %s", of), Want: cluster}
		}
		a.server = cluster
	}
	return a, nil
}

func createTenant(c *call) error {
	name, err := tenantArg(c)
	if err != nil {
		return err
	}
	who, err := readAccess(c, name)
	if err != nil {
		return err
	}
	role, timeout := c.String("role"), c.Duration("timeout")
	to := targetOf(c)
	switch {
	case role == "":
		return &problem.Input{Source: "--role", Want: "the name of a ClusterRole, or " + noRole}
	case to.flag != "" && to.file == "":
		return &problem.Input{Source: to.flag, Want: "the name of a file, or - for standard output"}
	case timeout <= 0:
		return &problem.Input{Source: "--timeout", Value: timeout.String(), Want: `a duration such as "1m"`}
	}
	if to.file == "" {
		for _, flag := range []string{"group", "expires", "server"} {
			if c.IsSet(flag) {
				return &problem.Input{Source: "--" + flag, Err: errors.New("it says what is in a kubeconfig"),
					Want: "--output as well"}
			}
		}
	}
	admin, adminPath, err := adminFrom(to.admin)
	if err != nil {
		return err
	}
	if to.flag == "--kubeconfig" {
		if _, err := problem.Show(c.errOut, "a4s: note: %s is written; say so with --output, because --kubeconfig "+
			"is the file that is read\n", to.file); err != nil {
			return err
		}
	}
	// Before anything is made.
	if err := checkTarget(to.flag, to.file, adminPath); err != nil {
		return err
	}
	says := c.out
	if to.file == toStdout {
		says = c.errOut
	}
	made, err := admin.Create(c.ctx, name, c.String("partition"))
	if err != nil {
		return tenantError(c.ctx, admin, name, err)
	}
	ctx, cancel := context.WithTimeout(c.ctx, timeout)
	defer cancel()
	binds := role != noRole && (who.User != tenantadmin.AdminUser || role != tenantadmin.AdminRole)
	// A tenant that nobody uses yet costs its object alone, so it is not used for
	// nothing.
	if binds || to.file != "" {
		if err := admin.WaitReady(ctx, name); err != nil {
			return tenantError(c.ctx, admin, name, err)
		}
	}
	state := "created"
	if !made {
		state = "exists"
	}
	if _, err := problem.Show(says, "tenant %s %s\n", name, state); err != nil {
		return err
	}
	if binds {
		err := admin.Bind(ctx, name, who.User, role)
		if errors.Is(err, tenantadmin.ErrNoRole) {
			return &problem.Input{Source: "--role", Value: role, Err: err,
				Want: "cluster-admin, admin, edit, view, another ClusterRole of the tenant, or " + noRole}
		}
		if err != nil {
			return tenantError(c.ctx, admin, name, err)
		}
		if _, err := problem.Show(says, "user %s has the role %s in tenant %s\n", who.User, role, name); err != nil {
			return err
		}
	}
	if to.file == "" {
		_, err := problem.Show(says, "get a kubeconfig for it with: a4s tenant kubeconfig %s --output FILE\n", name)
		return err
	}
	return writeAccess(ctx, c, admin, who, to.file)
}

// target is what tenant create reads and writes.
type target struct {
	// flag names file, the kubeconfig that is written; both are empty if none is.
	flag, file string
	// admin is the kubeconfig that is read, empty for the default.
	admin string
}

// targetOf reads --output and --kubeconfig of tenant create. Once, --kubeconfig was the name
// of --output there, and it still is where nobody can have meant a kubeconfig to read:
// without --output, and with a former --admin-kubeconfig or a file that could only be
// written. One that gives access to more than a tenant was never overwritten.
func targetOf(c *call) target {
	read, former := c.String("kubeconfig"), c.String(formerKubeconfig)
	switch {
	case c.IsSet("output"):
		return target{flag: "--output", file: c.String("output"), admin: cmp.Or(read, former)}
	case c.IsSet("kubeconfig") && (former != "" || checkTarget("", read, "") == nil):
		return target{flag: "--kubeconfig", file: read, admin: former}
	}
	return target{admin: cmp.Or(read, former)}
}

func tenantKubeconfig(c *call) error {
	name, err := tenantArg(c)
	if err != nil {
		return err
	}
	who, err := readAccess(c, name)
	if err != nil {
		return err
	}
	login, err := readLogin(c)
	if err != nil {
		return err
	}
	file, timeout := c.String("output"), c.Duration("timeout")
	switch {
	case file == "":
		return &problem.Input{Source: "--output", Want: "the name of a file, or - for standard output"}
	case timeout <= 0:
		return &problem.Input{Source: "--timeout", Value: timeout.String(), Want: `a duration such as "1m"`}
	}
	admin, adminPath, err := newAdmin(c)
	if err != nil {
		return err
	}
	if err := checkTarget("--output", file, adminPath); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(c.ctx, timeout)
	defer cancel()
	t, err := admin.Get(ctx, name)
	if err == nil && !t.DeletionTimestamp.IsZero() {
		err = tenantadmin.ErrTerminating
	}
	if err != nil {
		return tenantError(c.ctx, admin, name, err)
	}
	if login != nil {
		if err := completeLogin(c, login, tenantadmin.OwnProvider(t)); err != nil {
			return err
		}
		return writeLogin(c, admin, who, login, file)
	}
	return writeAccess(ctx, c, admin, who, file)
}

// writeAccess gets a certificate and writes the kubeconfig.
func writeAccess(ctx context.Context, c *call, admin *tenantadmin.Admin, who *access, file string) error {
	creds, err := admin.Issue(ctx, who.Identity, who.expires)
	if err != nil {
		return tenantError(c.ctx, admin, who.Tenant, err)
	}
	server, err := addressFor(ctx, admin, who)
	if err != nil {
		return tenantError(c.ctx, admin, who.Tenant, err)
	}
	data, err := admin.Kubeconfig(who.Identity, creds, server)
	if err != nil {
		return err
	}
	if file == toStdout {
		_, err = c.out.Write(data)
	} else if err = tenantadmin.WriteKubeconfig(file, data); err == nil {
		_, err = problem.Show(c.out, "kubeconfig of user %s in tenant %s is in %s, valid until %s\n",
			who.User, who.Tenant, file, creds.NotAfter.Local().Format("2006-01-02 15:04 MST"))
	}
	if err != nil {
		return err
	}
	return noteAccess(c.errOut, server, who, creds.NotAfter)
}

// addressFor is the URL of the API in a kubeconfig: one that works from other machines, too, if
// there is one.
func addressFor(ctx context.Context, admin *tenantadmin.Admin, who *access) (string, error) {
	if who.server != "" {
		return who.server, nil
	}
	server, err := tenantadmin.External(ctx, admin)
	return cmp.Or(server, admin.Server()), err
}

// noteAccess says what is not as the user may expect.
func noteAccess(w io.Writer, server string, who *access, notAfter time.Time) error {
	// The signer begins a certificate five minutes before its issue, and counts from there.
	const grace = 6 * time.Minute
	if left := time.Until(notAfter); left < who.expires-grace {
		if _, err := problem.Show(w, "a4s: note: the cluster signs for %s at most (argument cluster-signing-duration "+
			"of the controller manager)\n", left.Round(time.Minute)); err != nil {
			return err
		}
	}
	return noteAddress(w, server, who)
}

// noteAddress says that nobody elsewhere can use the address.
func noteAddress(w io.Writer, server string, who *access) error {
	u, err := url.Parse(server)
	if who.server != "" || err != nil {
		return nil
	}
	if tenantadmin.Local(u.Hostname()) {
		_, err = problem.Show(w,
			"a4s: note: %s works on this machine only; --server URL makes a kubeconfig for others\n", server)
		return err
	}
	return nil
}

// checkTarget refuses to overwrite what is not a kubeconfig of a tenant.
// adminPath is the kubeconfig in use.
func checkTarget(flag, path, adminPath string) error {
	if path == "" || path == toStdout {
		return nil
	}
	bad := func(err error) error {
		return &problem.Input{Source: flag, Value: path, Err: err,
			Want: "a new file, or a kubeconfig of a tenant, which is replaced"}
	}
	info, err := os.Stat(path)
	if errors.Is(err, fs.ErrNotExist) {
		if dir, err := os.Stat(filepath.Dir(path)); err != nil {
			return bad(fmt.Errorf("directory %s: %w", filepath.Dir(path), problem.WithoutPath(err)))
		} else if !dir.IsDir() {
			return bad(fmt.Errorf("%s is not a directory", filepath.Dir(path)))
		}
		return nil
	}
	if err != nil {
		return bad(problem.WithoutPath(err))
	}
	if !info.Mode().IsRegular() {
		return bad(errors.New("it is not a regular file"))
	}
	if admin, err := os.Stat(adminPath); err == nil && os.SameFile(info, admin) {
		return bad(errors.New("it is the kubeconfig of the administrator"))
	}
	data, err := os.ReadFile(path)
	if err != nil {
		return bad(problem.WithoutPath(err))
	}
	if len(data) == 0 {
		return nil
	}
	cfg, err := clientcmd.Load(data)
	if err != nil || len(cfg.Clusters) == 0 {
		return bad(errors.New("it exists and is not a kubeconfig"))
	}
	for name, cluster := range cfg.Clusters {
		if _, tenant := tenantadmin.SplitAddress(cluster.Server); tenant == "" {
			return bad(fmt.Errorf("it has access to the cluster %q", name))
		}
	}
	return nil
}
