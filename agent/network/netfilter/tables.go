package netfilter

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os/exec"
	"slices"
	"strings"
)

// Table is one nftables table.
type Table struct {
	Family string `json:"family"`
	Name   string `json:"name"`
}

// String returns family and name.
func (t Table) String() string { return t.Family + " " + t.Name }

// nftList is the part of `nft -j list` that is needed here.
type nftList struct {
	Nftables []struct {
		Table *Table   `json:"table"`
		Rule  *nftRule `json:"rule"`
	} `json:"nftables"`
}

type nftRule struct {
	Chain   string `json:"chain"`
	Handle  int    `json:"handle"`
	Comment string `json:"comment"`
}

// Tables lists the nftables tables of this network namespace; none when the
// nft tool is absent.
func Tables(ctx context.Context) ([]Table, error) {
	if _, err := exec.LookPath("nft"); err != nil {
		return nil, nil
	}
	out, err := run(ctx, "", "nft", "-j", "list", "tables")
	if err != nil {
		return nil, err
	}
	var list nftList
	if err := json.Unmarshal(out, &list); err != nil {
		return nil, fmt.Errorf("nft -j list tables: %w", err)
	}
	var tables []Table
	for _, e := range list.Nftables {
		if e.Table != nil {
			tables = append(tables, *e.Table)
		}
	}
	return tables, nil
}

// Apply runs an nft script as one transaction.
func Apply(ctx context.Context, script string) error {
	_, err := run(ctx, script, "nft", "-f", "-")
	return err
}

// RemoveTables deletes the tables that own picks and returns those that went.
func RemoveTables(ctx context.Context, own func(Table) bool) ([]Table, error) {
	tables, err := Tables(ctx)
	if err != nil {
		return nil, err
	}
	var gone []Table
	var errs []error
	for _, t := range tables {
		if !own(t) {
			continue
		}
		if _, err := run(ctx, "", "nft", "delete", "table", t.Family, t.Name); err != nil {
			errs = append(errs, fmt.Errorf("table %s: %w", t, err))
			continue
		}
		gone = append(gone, t)
	}
	return gone, errors.Join(errs...)
}

// RemoveCommentedRules deletes the rules of a table whose comment is one of
// comments. The CNI plugins share their tables with all networks of a
// machine and mark their rules with the container's id. When no commented
// rule is left, the table goes too. It returns how many rules went.
func RemoveCommentedRules(ctx context.Context, t Table, comments []string) (int, error) {
	tables, err := Tables(ctx)
	if err != nil || !slices.Contains(tables, t) {
		return 0, err
	}
	out, err := run(ctx, "", "nft", "-j", "list", "table", t.Family, t.Name)
	if err != nil {
		return 0, err
	}
	var list nftList
	if err := json.Unmarshal(out, &list); err != nil {
		return 0, fmt.Errorf("nft -j list table %s: %w", t, err)
	}
	var script strings.Builder
	removed, foreign := 0, 0
	for _, e := range list.Nftables {
		switch {
		case e.Rule == nil || e.Rule.Comment == "":
		case slices.Contains(comments, e.Rule.Comment):
			fmt.Fprintf(&script, "delete rule %s %s %s handle %d\n", t.Family, t.Name, e.Rule.Chain, e.Rule.Handle)
			removed++
		default:
			foreign++
		}
	}
	if foreign == 0 {
		script.Reset()
		fmt.Fprintf(&script, "delete table %s %s\n", t.Family, t.Name)
	}
	if script.Len() == 0 {
		return 0, nil
	}
	if _, err := run(ctx, script.String(), "nft", "-f", "-"); err != nil {
		return 0, fmt.Errorf("table %s: %w", t, err)
	}
	return removed, nil
}
