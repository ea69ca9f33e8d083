package main

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net"
)

// send sends one datagram.
func send(ctx context.Context, _ io.Writer, args []string) error {
	if len(args) != 2 {
		return errors.New("want ADDR HEX")
	}
	data, err := hex.DecodeString(args[1])
	if err != nil {
		return fmt.Errorf("HEX: %w", err)
	}
	var d net.Dialer
	conn, err := d.DialContext(ctx, "udp", args[0])
	if err != nil {
		return err
	}
	defer conn.Close()
	_, err = conn.Write(data)
	return err
}

// listen prints each datagram that comes in, until ctx ends.
func listen(ctx context.Context, out io.Writer, args []string) error {
	if len(args) != 1 {
		return errors.New("want ADDR")
	}
	var c net.ListenConfig
	conn, err := c.ListenPacket(ctx, "udp", args[0])
	if err != nil {
		return err
	}
	defer context.AfterFunc(ctx, func() { _ = conn.Close() })()
	fmt.Fprintln(out, "testbox listens on", args[0])
	buf := make([]byte, 1500)
	for {
		n, from, err := conn.ReadFrom(buf)
		if ctx.Err() != nil {
			return nil
		}
		if err != nil {
			return err
		}
		fmt.Fprintf(out, "%s says %q\n", from, buf[:n])
	}
}
