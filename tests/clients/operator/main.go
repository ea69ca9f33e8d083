package main

import (
	"flag"
	"fmt"
	"os"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/runtime"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/klog/v2"
	ctrl "sigs.k8s.io/controller-runtime"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"
	"sigs.k8s.io/controller-runtime/pkg/webhook"

	v1 "github.com/a4s-io/a4s/tests/clients/operator/api/v1"
	"github.com/a4s-io/a4s/tests/clients/operator/api/v1alpha1"
)

// certificates is a directory that the manifests mount.
const certificates = "/certificates"

func main() {
	second := flag.Bool("second", false, "be the second release")
	image := flag.String("image", "", "image of the pods of widgets")
	flag.Parse()
	ctrl.SetLogger(klog.Background())
	if err := run(*second, *image); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(second bool, image string) error {
	ctx := ctrl.SetupSignalHandler()
	scheme := runtime.NewScheme()
	utilruntime.Must(clientgoscheme.AddToScheme(scheme))
	utilruntime.Must(apiextensionsv1.AddToScheme(scheme))
	utilruntime.Must(v1alpha1.AddToScheme(scheme))
	if second {
		utilruntime.Must(v1.AddToScheme(scheme))
	}
	cfg, err := ctrl.GetConfig()
	if err != nil {
		return err
	}
	if err := secure(ctx, cfg, scheme, second); err != nil {
		return fmt.Errorf("making the certificate of the webhooks: %w", err)
	}
	mgr, err := ctrl.NewManager(cfg, ctrl.Options{
		Scheme:                        scheme,
		LeaderElection:                true,
		LeaderElectionID:              "widgets.example.com",
		LeaderElectionReleaseOnCancel: true,
		HealthProbeBindAddress:        ":8081",
		Metrics:                       metricsserver.Options{BindAddress: "0"},
		WebhookServer:                 webhook.NewServer(webhook.Options{CertDir: certificates}),
	})
	if err != nil {
		return err
	}
	if err := mgr.AddReadyzCheck("webhooks", mgr.GetWebhookServer().StartedChecker()); err != nil {
		return err
	}
	if second {
		err = secondRelease(mgr, image)
	} else {
		err = firstRelease(mgr, image)
	}
	if err != nil {
		return err
	}
	return mgr.Start(ctx)
}

// control runs the reconciler of a kind of widgets.
func control(mgr ctrl.Manager, r *reconciler) error {
	r.Client = mgr.GetClient()
	return ctrl.NewControllerManagedBy(mgr).Named("widget").For(r.new()).Owns(&appsv1.Deployment{}).
		Owns(&corev1.ConfigMap{}).Complete(r)
}
