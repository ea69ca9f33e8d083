package cmd

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/urfave/cli/v2"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	bootstrapapi "k8s.io/cluster-bootstrap/token/api"

	"github.com/a4s-io/a4s/internal/joinapi"
	"github.com/a4s-io/a4s/internal/jointoken"
	"github.com/a4s-io/a4s/internal/pki"
	"github.com/a4s-io/a4s/internal/problem"
)

// bootstrapGroup is the group of those who authenticate with a token made
// here.
const bootstrapGroup = "system:bootstrappers:a4s:default-node-token"

// tokenUsages maps the names of --usages to keys of the Secret.
func tokenUsages() map[string]string {
	return map[string]string{
		"authentication": bootstrapapi.BootstrapTokenUsageAuthentication,
		"signing":        bootstrapapi.BootstrapTokenUsageSigningKey,
	}
}

func tokenCommand() *cli.Command {
	return group(&cli.Command{
		Name:  "token",
		Usage: "manage the tokens that nodes join with",
		Description: "A server has a permanent token for servers and one for agents (rotate), and any\n" +
			"number of bootstrap tokens that expire (create, list, delete).",
	},
		leaf(&cli.Command{
			Name:        "create",
			ArgsUsage:   "[ID.SECRET] [FLAGS]",
			Usage:       "make a bootstrap token and print it as a join token",
			Description: "ID is 6 and SECRET 16 lower-case letters and digits; without them they are random.",
			Before:      takes(0, 1, "at most one token of the form id.secret"),
			Action:      action(createToken),
		},
			span("ttl", "", 24*time.Hour, "`DURATION` until it expires; 0 is never", "24h"),
			text("description", "", "", "`TEXT` that says what it is for"),
			text("usages", "", "authentication,signing",
				"`LIST` of what it is good for, of authentication and signing"),
			kubeconfigFlag(),
		),
		leaf(&cli.Command{
			Name:      "list",
			ArgsUsage: "[FLAGS]",
			Usage:     "list bootstrap tokens, without their secrets",
			Action:    action(listTokens),
		},
			kubeconfigFlag(),
		),
		leaf(&cli.Command{
			Name:      "delete",
			ArgsUsage: "ID... [FLAGS]",
			Usage:     "delete bootstrap tokens",
			Before:    takes(1, -1, `the ids of tokens, as "a4s token list" prints them`),
			Action:    action(deleteTokens),
		},
			kubeconfigFlag(),
		),
		leaf(&cli.Command{
			Name:      "rotate",
			ArgsUsage: "[FLAGS]",
			Usage:     "replace a permanent token and print the new one",
			Description: "Nodes that have joined stay. Put the new token into the configuration of servers\n" +
				"and agents that have it there.",
			Action: action(rotateToken),
		},
			text("which", "", "server", "`NAME` of the token: server or agent"),
			text("new-token", "", "", "`PASSWORD` of the new token", "random"),
			kubeconfigFlag(),
		),
	)
}

func createToken(c *call) error {
	secret, token, err := newTokenSecret(c.arg(0), c.String("usages"), c.String("description"),
		c.Duration("ttl"), time.Now())
	if err != nil {
		return err
	}
	cl, err := newClient(c)
	if err != nil {
		return err
	}
	if token.CAHash, err = pki.HashBundle(cl.cfg.CAData); err != nil {
		return fmt.Errorf("CA in the kubeconfig: %w", err)
	}
	_, err = cl.kube.CoreV1().Secrets(metav1.NamespaceSystem).Create(c.ctx, secret, metav1.CreateOptions{})
	if apierrors.IsAlreadyExists(err) {
		return &problem.Input{Source: "token id", Value: token.ID,
			Err: errors.New("it exists already"), Want: "another id"}
	}
	if err != nil {
		return cl.explain(err)
	}
	_, err = problem.Show(c.out, "%s\n", token.Encode())
	return err
}

// newTokenSecret returns the Secret of a bootstrap token. text is id.secret,
// or empty for a random one.
func newTokenSecret(
	text, usages, description string, ttl time.Duration, now time.Time,
) (*corev1.Secret, jointoken.Token, error) {
	var token jointoken.Token
	if text == "" {
		text = randomText(6) + "." + randomText(16)
	}
	var ok bool
	if token.ID, token.Secret, ok = jointoken.ParseBootstrap(text); !ok {
		return nil, token, &problem.Input{Source: "token", Want: "6 lower-case letters and digits, a dot, and 16 more"}
	}
	if ttl < 0 {
		return nil, token, &problem.Input{Source: "--ttl", Value: ttl.String(),
			Want: `a duration such as "24h", or 0 for a token that never expires`}
	}
	data := map[string]string{
		bootstrapapi.BootstrapTokenIDKey:          token.ID,
		bootstrapapi.BootstrapTokenSecretKey:      token.Secret,
		bootstrapapi.BootstrapTokenExtraGroupsKey: bootstrapGroup,
	}
	for usage := range strings.SplitSeq(usages, ",") {
		key, ok := tokenUsages()[strings.TrimSpace(usage)]
		if !ok {
			return nil, token, &problem.Input{Source: "--usages", Value: usages,
				Want: "authentication, signing or both, separated by a comma"}
		}
		data[key] = "true"
	}
	if description != "" {
		data[bootstrapapi.BootstrapTokenDescriptionKey] = description
	}
	if ttl > 0 {
		data[bootstrapapi.BootstrapTokenExpirationKey] = now.Add(ttl).UTC().Format(time.RFC3339)
	}
	return &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceSystem,
			Name: bootstrapapi.BootstrapTokenSecretPrefix + token.ID},
		Type:       bootstrapapi.SecretTypeBootstrapToken,
		StringData: data,
	}, token, nil
}

// randomText returns n lower-case letters and digits.
func randomText(n int) string {
	const alphabet = "abcdefghijklmnopqrstuvwxyz0123456789"
	out := make([]byte, 0, n)
	for len(out) < n {
		var b [1]byte
		_, _ = rand.Read(b[:]) // never fails: crypto/rand ends the process instead
		// 252 is the largest multiple of 36 in a byte; more would favour
		// the first letters.
		if b[0] < 252 {
			out = append(out, alphabet[int(b[0])%len(alphabet)])
		}
	}
	return string(out)
}

func listTokens(c *call) error {
	cl, err := newClient(c)
	if err != nil {
		return err
	}
	list, err := cl.kube.CoreV1().Secrets(metav1.NamespaceSystem).List(c.ctx, metav1.ListOptions{
		FieldSelector: fields.OneTermEqualSelector("type", string(bootstrapapi.SecretTypeBootstrapToken)).String(),
	})
	if err != nil {
		return cl.explain(err)
	}
	return writeTokens(c.out, list.Items, time.Now())
}

func writeTokens(out io.Writer, secrets []corev1.Secret, now time.Time) error {
	w := tabwriter.NewWriter(out, 0, 8, 3, ' ', 0)
	fmt.Fprintln(w, "ID\tTTL\tEXPIRES\tUSAGES\tDESCRIPTION") // Flush reports errors
	for _, s := range secrets {
		get := func(key string) string { return string(s.Data[key]) }
		ttl, expires := "forever", "never"
		if text := get(bootstrapapi.BootstrapTokenExpirationKey); text != "" {
			ttl, expires = "invalid", text
			if at, err := time.Parse(time.RFC3339, text); err == nil {
				ttl = "expired"
				if left := at.Sub(now); left > 0 {
					ttl = left.Round(time.Second).String()
				}
			}
		}
		var usages []string
		for usage, key := range tokenUsages() {
			if get(key) == "true" {
				usages = append(usages, usage)
			}
		}
		slices.Sort(usages)
		problem.Show(w, "%s\t%s\t%s\t%s\t%s\n", get(bootstrapapi.BootstrapTokenIDKey), ttl, expires,
			strings.Join(usages, ","), get(bootstrapapi.BootstrapTokenDescriptionKey))
	}
	return w.Flush()
}

func deleteTokens(c *call) error {
	var ids []string
	for _, arg := range c.args {
		id, _, _ := strings.Cut(arg[strings.LastIndex(arg, ":")+1:], ".")
		if _, _, ok := jointoken.ParseBootstrap(id + ".0123456789abcdef"); !ok {
			return &problem.Input{Source: "token id",
				Want: `6 lower-case letters and digits, as "a4s token list" prints them`}
		}
		ids = append(ids, id)
	}
	cl, err := newClient(c)
	if err != nil {
		return err
	}
	for _, id := range ids {
		if err := deleteToken(c.ctx, cl, id); err != nil {
			return err
		}
		if _, err := problem.Show(c.out, "deleted %s\n", id); err != nil {
			return err
		}
	}
	return nil
}

func deleteToken(ctx context.Context, cl *client, id string) error {
	err := cl.kube.CoreV1().Secrets(metav1.NamespaceSystem).Delete(ctx, bootstrapapi.BootstrapTokenSecretPrefix+id,
		metav1.DeleteOptions{})
	if apierrors.IsNotFound(err) {
		return &problem.Input{Source: "token id", Value: id, Err: errors.New("no such token"),
			Want: `one that "a4s token list" prints`}
	}
	if err != nil {
		return cl.explain(err)
	}
	return nil
}

func rotateToken(c *call) error {
	req := joinapi.TokenRequest{}
	switch which := c.String("which"); which {
	case "server":
		req.Which = joinapi.UserServer
	case "agent":
		req.Which = joinapi.UserNode
	default:
		return &problem.Input{Source: "--which", Value: which, Want: "server or agent"}
	}
	if c.IsSet("new-token") {
		t, err := jointoken.Parse("--new-token", c.String("new-token"))
		if err != nil {
			return err
		}
		if t.Bootstrap() || t.CAHash != "" {
			return &problem.Input{
				Source: "--new-token",
				Err:    errors.New("it is a complete join token or has the form of a bootstrap token"),
				Want:   "a password alone",
			}
		}
		req.Password = t.Password
	}
	cl, err := newClient(c)
	if err != nil {
		return err
	}
	var resp joinapi.TokenResponse
	if err := cl.do(c.ctx, http.MethodPut, joinapi.PathToken, req, &resp); err != nil {
		return err
	}
	_, err = problem.Show(c.out, "%s\n", resp.Token)
	return err
}
