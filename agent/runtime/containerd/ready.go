package containerd

import (
	"context"
	"fmt"
	"time"

	"github.com/sirupsen/logrus"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

const (
	readyInterval = 50 * time.Millisecond
	readyNotice   = 15 * time.Second // how often a slow start is mentioned
)

// waitReady returns when the CRI runtime at socket reports itself ready, or
// with an error when ctx ends. A large database may take its time to open, so
// there is no other limit: the end of the process ends ctx.
func waitReady(ctx context.Context, socket string, log *logrus.Entry) error {
	conn, err := grpc.NewClient("unix://"+socket, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		return fmt.Errorf("connecting to containerd: %w", err)
	}
	defer conn.Close()
	client := runtimeapi.NewRuntimeServiceClient(conn)
	tick := time.NewTicker(readyInterval)
	defer tick.Stop()
	started, noticed := time.Now(), time.Now()
	for {
		err := checkReady(ctx, client)
		if err == nil {
			return nil
		}
		if time.Since(noticed) >= readyNotice {
			noticed = time.Now()
			log.WithError(err).Warnf("not ready after %s, still waiting", time.Since(started).Round(time.Second))
		}
		select {
		case <-tick.C:
			conn.Connect()
			conn.ResetConnectBackoff()
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

func checkReady(ctx context.Context, client runtimeapi.RuntimeServiceClient) error {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	if _, err := client.Version(ctx, &runtimeapi.VersionRequest{}); err != nil {
		return fmt.Errorf("asking for the CRI version: %w", err)
	}
	status, err := client.Status(ctx, &runtimeapi.StatusRequest{})
	if err != nil {
		return fmt.Errorf("asking for the CRI status: %w", err)
	}
	for _, condition := range status.GetStatus().GetConditions() {
		if condition.GetType() != runtimeapi.RuntimeReady {
			continue
		}
		if condition.GetStatus() {
			return nil
		}
		return fmt.Errorf("the runtime is not ready: %s: %s", condition.GetReason(), condition.GetMessage())
	}
	return fmt.Errorf("the CRI status has no condition %s", runtimeapi.RuntimeReady)
}
