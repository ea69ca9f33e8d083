package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"syscall"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	err := run(ctx, os.Args[1:])
	stop()
	if err != nil {
		fmt.Fprintf(os.Stderr, "bom: %v\n", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string) error {
	flags := flag.NewFlagSet("bom", flag.ContinueOnError)
	binary := flags.String("binary", "", "the a4s `FILE`")
	payload := flags.String("payload", "", "the `ARCHIVE` of the programs that it carries, .tar.zst")
	tools := flags.String("tools", "", "the `ARCHIVE` of the tools that it carries, .tar.zst, if it has one")
	policyFile := flags.String("policy", "", "the `FILE` that says which licences are allowed")
	out := flags.String("out", "", "`PREFIX` of the files to write: PREFIX.cdx.json, PREFIX.licenses.txt")
	if err := flags.Parse(args); err != nil {
		return err
	}
	if *binary == "" || *payload == "" || *policyFile == "" || *out == "" || flags.NArg() != 0 {
		return errors.New("--binary, --payload, --policy and --out are needed, and nothing else")
	}
	policy, err := readPolicy(*policyFile)
	if err != nil {
		return err
	}
	shipped, err := inventory(ctx, *binary, *payload, *tools)
	if err != nil {
		return err
	}
	reader, err := newLicenseReader(ctx)
	if err != nil {
		return err
	}
	if err := policy.judge(ctx, reader, shipped.parts); err != nil {
		return err
	}
	if err := writeFile(*out+".licenses.txt", shipped.licenseList()); err != nil {
		return err
	}
	bom, err := shipped.cycloneDX()
	if err != nil {
		return err
	}
	if err := writeFile(*out+".cdx.json", bom); err != nil {
		return err
	}
	fmt.Printf("%d programs of %d modules and libraries, under %s\n", len(shipped.programs), len(shipped.parts),
		shipped.licenseNames())
	return nil
}

// writeFile replaces a file in one step.
func writeFile(name string, content []byte) error {
	if err := os.WriteFile(name+".new", content, 0o644); err != nil {
		return err
	}
	return os.Rename(name+".new", name)
}
