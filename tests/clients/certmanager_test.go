package clients

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	cmv1 "github.com/cert-manager/cert-manager/pkg/apis/certmanager/v1"
	cmmeta "github.com/cert-manager/cert-manager/pkg/apis/meta/v1"
	certmanager "github.com/cert-manager/cert-manager/pkg/client/clientset/versioned"
	"github.com/cert-manager/cert-manager/pkg/controller"
	"github.com/cert-manager/cert-manager/pkg/controller/cainjector"
	_ "github.com/cert-manager/cert-manager/pkg/controller/certificate-shim/ingresses"
	_ "github.com/cert-manager/cert-manager/pkg/controller/certificaterequests/approver"
	_ "github.com/cert-manager/cert-manager/pkg/controller/certificaterequests/ca"
	_ "github.com/cert-manager/cert-manager/pkg/controller/certificaterequests/selfsigned"
	_ "github.com/cert-manager/cert-manager/pkg/controller/certificates/issuing"
	_ "github.com/cert-manager/cert-manager/pkg/controller/certificates/keymanager"
	_ "github.com/cert-manager/cert-manager/pkg/controller/certificates/metrics"
	_ "github.com/cert-manager/cert-manager/pkg/controller/certificates/readiness"
	_ "github.com/cert-manager/cert-manager/pkg/controller/certificates/requestmanager"
	_ "github.com/cert-manager/cert-manager/pkg/controller/certificates/revisionmanager"
	_ "github.com/cert-manager/cert-manager/pkg/controller/certificates/trigger"
	_ "github.com/cert-manager/cert-manager/pkg/controller/clusterissuers"
	_ "github.com/cert-manager/cert-manager/pkg/controller/issuers"
	_ "github.com/cert-manager/cert-manager/pkg/issuer/ca"
	_ "github.com/cert-manager/cert-manager/pkg/issuer/selfsigned"
	cmutil "github.com/cert-manager/cert-manager/pkg/util"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	apiext "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	apireg "k8s.io/kube-aggregator/pkg/apis/apiregistration/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/config"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"
)

// certNamespace is where both tenants have what cert-manager makes for them.
const certNamespace = "certs"

// TestCertManager runs the controllers and the cainjector of cert-manager, as
// their default flags have them, in both tenants: a CA that signs itself, a
// cluster issuer that signs with it, a certificate, and a webhook that gets its
// CA injected. The controllers of ACME, which need a server of that, are left out:
// they bring the libraries of five clouds along.
func TestCertManager(t *testing.T) {
	t.Parallel()
	for _, s := range []*space{acme, globex} {
		t.Run(s.name, func(t *testing.T) {
			t.Parallel()
			testCertManager(t, s)
		})
	}
}

func testCertManager(t *testing.T, s *space) {
	installCertManagerCRDs(t, s)
	client := s.client(t)
	if _, err := client.CoreV1().Namespaces().Create(t.Context(),
		&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: certNamespace}}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	runCertManager(t, s)
	runCAInjector(t, s)

	cm, err := certmanager.NewForConfig(s.config(t, s.prefixed))
	if err != nil {
		t.Fatal(err)
	}
	kubeSystem := cm.CertmanagerV1().Certificates(metav1.NamespaceSystem)
	if _, err := cm.CertmanagerV1().ClusterIssuers().Create(t.Context(), &cmv1.ClusterIssuer{
		ObjectMeta: metav1.ObjectMeta{Name: "itself"},
		Spec:       cmv1.IssuerSpec{IssuerConfig: cmv1.IssuerConfig{SelfSigned: &cmv1.SelfSignedIssuer{}}},
	}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	if _, err := kubeSystem.Create(t.Context(), certificate("ca", "itself", true),
		metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	if _, err := cm.CertmanagerV1().ClusterIssuers().Create(t.Context(), &cmv1.ClusterIssuer{
		ObjectMeta: metav1.ObjectMeta{Name: "ca"},
		Spec:       cmv1.IssuerSpec{IssuerConfig: cmv1.IssuerConfig{CA: &cmv1.CAIssuer{SecretName: "ca"}}},
	}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	if _, err := cm.CertmanagerV1().Certificates(certNamespace).Create(t.Context(), certificate("web", "ca", false),
		metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	var ca []byte
	eventually(t, "the certificate", func(ctx context.Context) error {
		secret, err := client.CoreV1().Secrets(certNamespace).Get(ctx, "web", metav1.GetOptions{})
		if err != nil {
			return err
		}
		if ca = secret.Data[cmmeta.TLSCAKey]; len(ca) == 0 || len(secret.Data["tls.crt"]) == 0 {
			return fmt.Errorf("the secret has %d keys", len(secret.Data))
		}
		return nil
	})
	// Events about what has no namespace are in the namespace default.
	eventually(t, "the event about the cluster issuer", func(ctx context.Context) error {
		events, err := client.CoreV1().Events(metav1.NamespaceDefault).List(ctx,
			metav1.ListOptions{FieldSelector: "involvedObject.kind=ClusterIssuer,involvedObject.name=ca"})
		if err != nil {
			return err
		}
		for _, e := range events.Items {
			if e.Reason == "KeyPairVerified" {
				return nil
			}
		}
		return fmt.Errorf("there are %d events about it, none of its key pair", len(events.Items))
	})
	injected(t, s, ca)
}

// injected has the cainjector fill in a webhook.
func injected(t *testing.T, s *space, ca []byte) {
	t.Helper()
	hooks := s.client(t).AdmissionregistrationV1().ValidatingWebhookConfigurations()
	none, url := admissionregistrationv1.SideEffectClassNone, "https://hooks.example.com/"
	if _, err := hooks.Create(t.Context(), &admissionregistrationv1.ValidatingWebhookConfiguration{
		ObjectMeta: metav1.ObjectMeta{Name: "injected",
			Annotations: map[string]string{cmv1.WantInjectAnnotation: certNamespace + "/web"}},
		Webhooks: []admissionregistrationv1.ValidatingWebhook{{
			Name: "hook.example.com", SideEffects: &none, AdmissionReviewVersions: []string{"v1"},
			ClientConfig: admissionregistrationv1.WebhookClientConfig{URL: &url},
		}},
	}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the CA to be injected", func(ctx context.Context) error {
		hook, err := hooks.Get(ctx, "injected", metav1.GetOptions{})
		if err != nil {
			return err
		}
		if got := hook.Webhooks[0].ClientConfig.CABundle; string(got) != string(ca) {
			return fmt.Errorf("the bundle is %q", got)
		}
		return nil
	})
}

// certificate is one that an issuer of the cluster signs.
func certificate(name, issuer string, isCA bool) *cmv1.Certificate {
	return &cmv1.Certificate{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: cmv1.CertificateSpec{
			CommonName: name, DNSNames: []string{name + ".example.com"}, SecretName: name, IsCA: isCA,
			PrivateKey: &cmv1.CertificatePrivateKey{Algorithm: cmv1.ECDSAKeyAlgorithm},
			IssuerRef:  cmmeta.IssuerReference{Name: issuer, Kind: cmv1.ClusterIssuerKind},
		},
	}
}

// installCertManagerCRDs applies those of the release with kubectl, without those
// of ACME: their names hold that of a tenant here.
func installCertManagerCRDs(t *testing.T, s *space) {
	t.Helper()
	dir, err := exec.Command("go", "list", "-m", "-f", "{{.Dir}}", "github.com/cert-manager/cert-manager").Output()
	if err != nil {
		t.Fatal(err)
	}
	crds, err := filepath.Glob(filepath.Join(strings.TrimSpace(string(dir)), "deploy", "crds",
		"cert-manager.io_*.yaml"))
	if err != nil || len(crds) == 0 {
		t.Fatalf("no definitions below %s (%v)", dir, err)
	}
	files := "--filename=" + strings.Join(crds, ",")
	for _, args := range [][]string{
		{"apply", "--server-side", files},
		{"wait", "--for=condition=Established", "--timeout=" + deadline.String(), files},
	} {
		cmd := exec.Command(kubectlBinary(), append(args, "--kubeconfig", s.prefixed)...)
		cmd.Env = []string{"HOME=" + t.TempDir(), "PATH=" + os.Getenv("PATH")}
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("%s: %v\n%s", args[0], err, out)
		}
	}
}

// runCertManager runs all controllers that are registered until the test ends.
func runCertManager(t *testing.T, s *space) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	factory, err := controller.NewContextFactory(ctx, controller.ContextOptions{
		Kubeconfig: s.prefixed, KubernetesAPIQPS: 20, KubernetesAPIBurst: 50,
		IssuerOptions:    controller.IssuerOptions{ClusterResourceNamespace: metav1.NamespaceSystem},
		SchedulerOptions: controller.SchedulerOptions{MaxConcurrentChallenges: 60},
	})
	if err != nil {
		t.Fatal(err)
	}
	base, err := factory.Build()
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, len(controller.Known()))
	running := 0
	for name, construct := range controller.Known() {
		c, err := construct(factory)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		running++
		go func() {
			err := c.Run(5, ctx)
			if err != nil {
				err = fmt.Errorf("%s: %w", name, err)
			}
			ended <- err
		}()
	}
	base.SharedInformerFactory.Start(ctx.Done())
	base.KubeSharedInformerFactory.Start(ctx.Done())
	base.HTTP01ResourceMetadataInformersFactory.Start(ctx.Done())
	t.Cleanup(func() {
		cancel()
		for range running {
			if err := <-ended; err != nil && !errors.Is(err, context.Canceled) {
				t.Error(err)
			}
		}
	})
}

// runCAInjector runs the reconcilers of all four kinds until the test ends.
func runCAInjector(t *testing.T, s *space) {
	t.Helper()
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{clientgoscheme.AddToScheme, cmv1.AddToScheme, apiext.AddToScheme,
		apireg.AddToScheme} {
		utilruntime.Must(add(scheme))
	}
	unchecked := true // both tenants have one in this process
	mgr, err := ctrl.NewManager(cmutil.RestConfigWithUserAgent(s.config(t, s.prefixed), "cainjector"), ctrl.Options{
		Scheme: scheme, LeaderElection: true, LeaderElectionNamespace: metav1.NamespaceSystem,
		LeaderElectionID: "cert-manager-cainjector-leader-election", LeaderElectionReleaseOnCancel: true,
		Metrics:    metricsserver.Options{BindAddress: "0"},
		Controller: config.Controller{SkipNameValidation: &unchecked},
	})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	if err := cainjector.RegisterAllInjectors(ctx, mgr, cainjector.SetupOptions{
		EnableCertificatesDataSource: true,
		EnabledReconcilersFor: map[string]bool{
			cainjector.MutatingWebhookConfigurationName: true, cainjector.ValidatingWebhookConfigurationName: true,
			cainjector.APIServiceName: true, cainjector.CustomResourceDefinitionName: true,
		},
	}); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- mgr.Start(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Errorf("the cainjector: %v", err)
		}
	})
}
