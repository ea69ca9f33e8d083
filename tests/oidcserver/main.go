// Command oidcserver is a provider of OpenID Connect for tests: the certified one of zitadel/oidc, with its
// login page, and with users that a file names. Its key is a new one at each start.
package main

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"time"

	"github.com/zitadel/oidc/v3/example/server/exampleop"
	"github.com/zitadel/oidc/v3/example/server/storage"
	"github.com/zitadel/oidc/v3/pkg/oidc"
	"github.com/zitadel/oidc/v3/pkg/op"
)

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run() error {
	issuer := flag.String("issuer", "", "the URL of the provider")
	cert := flag.String("cert", "", "its certificate")
	key := flag.String("key", "", "the key of it")
	file := flag.String("users", "", "a file with the claims of each user, as JSON")
	client := flag.String("client", "", "the ID of the only client")
	fd := flag.Uint("fd", 0, "the file descriptor of the socket to listen with")
	flag.Parse()
	listener, err := net.FileListener(os.NewFile(uintptr(*fd), "listener"))
	if err != nil {
		return err
	}
	of := users(*file)
	clients := map[string]*storage.Client{*client: storage.WebClient(*client, "secret")}
	log := slog.New(slog.NewTextHandler(os.Stderr, nil))
	kept := &store{storage.NewStorageWithClients(of, clients), of}
	server := &http.Server{
		Handler:           exampleop.SetupServer(*issuer, kept, log, false),
		ReadHeaderTimeout: time.Minute,
	}
	return server.ServeTLS(listener, *cert, *key)
}

// users is a file with the claims of each user. All have the same password.
type users string

func (u users) claims(name string) (map[string]any, bool) {
	data, err := os.ReadFile(string(u))
	if err != nil {
		return nil, false
	}
	var all map[string]map[string]any
	if err := json.Unmarshal(data, &all); err != nil {
		return nil, false
	}
	claims, ok := all[name]
	return claims, ok
}

// GetUserByID implements storage.UserStore.
func (u users) GetUserByID(id string) *storage.User {
	if _, ok := u.claims(id); !ok {
		return nil
	}
	return &storage.User{ID: id, Username: id, Password: "password"}
}

// GetUserByUsername implements storage.UserStore.
func (u users) GetUserByUsername(name string) *storage.User { return u.GetUserByID(name) }

// ExampleClientID implements storage.UserStore.
func (users) ExampleClientID() string { return "service" }

// store adds the claims of users to their tokens.
type store struct {
	*storage.Storage
	users users
}

// SetUserinfoFromRequest implements op.CanSetUserinfoFromRequest.
func (s *store) SetUserinfoFromRequest(
	ctx context.Context, info *oidc.UserInfo, token op.IDTokenRequest, scopes []string,
) error {
	if err := s.Storage.SetUserinfoFromRequest(ctx, info, token, scopes); err != nil {
		return err
	}
	claims, _ := s.users.claims(token.GetSubject())
	for name, value := range claims {
		info.AppendClaims(name, value)
	}
	return nil
}
