package config

import (
	"errors"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"
)

// S3BucketLookups are the values of EtcdS3.BucketLookup.
var S3BucketLookups = []string{"auto", "dns", "path"}

// EtcdS3 is the object storage that snapshots are copied to.
type EtcdS3 struct {
	// Enabled turns it on; the rest has no effect without it.
	Enabled bool
	// Endpoint is a host, with a port or not.
	Endpoint string
	// EndpointCA is a PEM file with the CAs that its certificate is checked
	// with, instead of those of the system.
	EndpointCA string
	// SkipSSLVerify accepts any certificate, Insecure uses no TLS.
	SkipSSLVerify, Insecure bool
	// AccessKey, SecretKey and SessionToken are credentials. The latter two
	// must not get into logs, errors or output.
	AccessKey, SecretKey, SessionToken string
	Bucket                             string
	// BucketLookup is one of S3BucketLookups.
	BucketLookup string
	Region       string
	// Folder precedes the names of snapshots, without slashes around it.
	Folder string
	// Timeout bounds what is done with one snapshot.
	Timeout string
	// Retention is how many scheduled snapshots are kept; 0 is all of them.
	Retention int
	// ConfigSecret is the name of a Secret that has the rest but Enabled and Retention, if
	// nothing of that is given here. See InSecret.
	ConfigSecret string
	// Proxy is the URL of the proxy that the server is reached through, or NoProxy. Without it
	// the environment decides.
	Proxy string
	// EndpointCAs is what a file of EndpointCA would hold. Only a Secret has it.
	EndpointCAs string

	ofSecret bool // values are those of ConfigSecret
}

// Limit is Timeout as a duration.
func (s *EtcdS3) Limit() time.Duration {
	limit, _ := time.ParseDuration(s.Timeout) // validation refuses others
	return limit
}

// String has nothing secret, whatever prints a configuration.
func (s EtcdS3) String() string {
	if !s.Enabled {
		return "none"
	}
	return "s3://" + strings.Trim(s.Bucket+"/"+s.Folder, "/") + " at " + s.Endpoint
}

// GoString is String.
func (s EtcdS3) GoString() string { return s.String() }

// s3Settings is the table of EtcdS3.
func s3Settings(s *EtcdS3) []Setting {
	return []Setting{
		{Name: "etcd-s3", Env: "A4S_ETCD_S3", Category: catSnapshots, Usage: "copy snapshots to S3-compatible storage",
			target: &s.Enabled},
		{Name: "etcd-s3-endpoint", Env: "A4S_ETCD_S3_ENDPOINT", Category: catSnapshots, Placeholder: "HOST[:PORT]",
			Default: "s3.amazonaws.com",
			Usage:   "S3 server", target: &s.Endpoint},
		{Name: "etcd-s3-endpoint-ca", Env: "A4S_ETCD_S3_ENDPOINT_CA", Category: catSnapshots, Placeholder: "PATH",
			DefaultText: "the CAs of the system",
			Usage:       "CA that the S3 server's certificate is checked with", target: &s.EndpointCA},
		{Name: "etcd-s3-skip-ssl-verify", Env: "A4S_ETCD_S3_SKIP_SSL_VERIFY", Category: catSnapshots,
			Usage: "accept any certificate of the S3 server", target: &s.SkipSSLVerify},
		{Name: "etcd-s3-access-key", Env: "AWS_ACCESS_KEY_ID", Category: catSnapshots, Placeholder: "KEY",
			DefaultText: "the role of the machine, on AWS",
			Usage:       "access key for S3", target: &s.AccessKey},
		{Name: "etcd-s3-secret-key", Env: "AWS_SECRET_ACCESS_KEY", Category: catSnapshots, Placeholder: "SECRET",
			Usage:  "secret of --etcd-s3-access-key; every process sees flags, so rather in a file",
			target: &s.SecretKey},
		{Name: "etcd-s3-session-token", Env: "AWS_SESSION_TOKEN", Category: catSnapshots, Placeholder: "TOKEN",
			Usage: "token that comes with temporary keys", target: &s.SessionToken},
		{Name: "etcd-s3-bucket", Env: "A4S_ETCD_S3_BUCKET", Category: catSnapshots, Placeholder: "NAME",
			Usage: "bucket, which exists", target: &s.Bucket},
		{Name: "etcd-s3-bucket-lookup-type", Env: "A4S_ETCD_S3_BUCKET_LOOKUP_TYPE", Category: catSnapshots,
			Placeholder: "TYPE", Default: "auto", Choices: S3BucketLookups,
			Usage: "whether the bucket is in the host name or in the path", target: &s.BucketLookup},
		{Name: "etcd-s3-region", Env: "A4S_ETCD_S3_REGION", Category: catSnapshots, Placeholder: "REGION",
			Default: "us-east-1",
			Usage:   "region of the bucket", target: &s.Region},
		{Name: "etcd-s3-folder", Env: "A4S_ETCD_S3_FOLDER", Category: catSnapshots, Placeholder: "NAME",
			DefaultText: "none",
			Usage:       "folder in the bucket; give each cluster its own", target: &s.Folder},
		{Name: "etcd-s3-insecure", Env: "A4S_ETCD_S3_INSECURE", Category: catSnapshots,
			Usage: "reach the S3 server without TLS", target: &s.Insecure},
		{Name: "etcd-s3-timeout", Env: "A4S_ETCD_S3_TIMEOUT", Category: catSnapshots,
			Placeholder: "DURATION", Default: "5m",
			Usage: "how long the transfer of a snapshot may take", target: &s.Timeout},
		{Name: "etcd-s3-retention", Env: "A4S_ETCD_S3_RETENTION", Category: catSnapshots,
			Placeholder: "NUMBER", Default: "5",
			Usage: "how many scheduled snapshots are kept in S3; 0 is all", target: &s.Retention},
		{Name: "etcd-s3-proxy", Env: "A4S_ETCD_S3_PROXY", Category: catSnapshots, Placeholder: "URL",
			DefaultText: "HTTPS_PROXY and NO_PROXY of the environment",
			Usage:       "proxy to the S3 server, or " + NoProxy, target: &s.Proxy},
		{Name: s3ConfigSecret, Env: "A4S_ETCD_S3_CONFIG_SECRET", Category: catSnapshots, Placeholder: "NAME",
			Usage:  "Secret in kube-system with the settings of S3, if no other of them is given",
			target: &s.ConfigSecret},
	}
}

// S3Settings is the table of EtcdS3 for commands that only need the names.
func S3Settings() []Setting { return s3Settings(&EtcdS3{}) }

// normalize makes one form of the several that s3 accepts.
func (s *EtcdS3) normalize() {
	s.Folder = strings.Trim(s.Folder, "/")
	_, s.Endpoint = splitEndpoint(s.Endpoint)
}

// splitEndpoint accepts a URL as well, as the makers of servers print them.
func splitEndpoint(endpoint string) (scheme, host string) {
	scheme, host, ok := strings.Cut(endpoint, "://")
	if !ok {
		scheme, host = "", endpoint
	}
	return scheme, strings.TrimSuffix(host, "/")
}

// s3 checks the settings of S3, if it is on.
func (c *checker) s3(s *EtcdS3) {
	if !s.Enabled {
		return
	}
	if s.Retention < 0 {
		c.bad("etcd-s3-retention", strconv.Itoa(s.Retention), "a number from 1, or 0 to keep all")
	}
	if s.ConfigSecret != "" && !secretName.MatchString(s.ConfigSecret) {
		c.bad(s3ConfigSecret, s.ConfigSecret, "the name of a Secret in kube-system")
	}
	if s.InSecret() {
		return // it is checked when it is read
	}
	c.s3Endpoint(s)
	c.s3Proxy(s)
	c.absolute("etcd-s3-endpoint-ca", s.EndpointCA)
	c.file("etcd-s3-endpoint-ca", s.EndpointCA)
	if s.Insecure && (s.EndpointCA != "" || s.EndpointCAs != "" || s.SkipSSLVerify) {
		c.fail("etcd-s3-insecure", "", errors.New("there is no certificate to check without TLS"),
			"it without --etcd-s3-endpoint-ca and --etcd-s3-skip-ssl-verify")
	}
	_, host := splitEndpoint(s.Endpoint)
	switch aws := strings.HasSuffix(host, ".amazonaws.com"); {
	case s.AccessKey == "" && s.SecretKey == "" && aws: // the role of the machine
	case s.AccessKey == "":
		c.fail("etcd-s3-access-key", "", ErrNoValue, "the access key"+s.OrVariable("AWS_ACCESS_KEY_ID")+s.whole())
	case s.SecretKey == "":
		c.fail("etcd-s3-secret-key", "", ErrNoValue,
			"the secret key"+s.OrVariable("AWS_SECRET_ACCESS_KEY")+s.whole())
	}
	if s.Bucket == "" {
		c.fail("etcd-s3-bucket", "", ErrNoValue, "the name of a bucket"+s.whole())
	} else if strings.ContainsAny(s.Bucket, "/: ") {
		c.bad("etcd-s3-bucket", s.Bucket, "the name of a bucket alone; what is behind a slash is --etcd-s3-folder")
	}
	c.oneOf("etcd-s3-bucket-lookup-type", s.BucketLookup, S3BucketLookups)
	if limit, err := time.ParseDuration(s.Timeout); err != nil || limit <= 0 {
		c.bad("etcd-s3-timeout", s.Timeout, Duration.Want())
	}
}

func (c *checker) s3Proxy(s *EtcdS3) {
	if s.Proxy == "" || s.Proxy == NoProxy {
		return
	}
	u, err := url.Parse(s.Proxy)
	if err != nil || u.Host == "" || !slices.Contains([]string{"http", "https", "socks5"}, u.Scheme) {
		// There may be a password in it, and in what url.Parse says.
		c.fail("etcd-s3-proxy", "", errors.New("it is not the URL of a proxy"),
			"a URL such as http://192.0.2.10:3128, or "+NoProxy)
	}
}

func (c *checker) s3Endpoint(s *EtcdS3) {
	scheme, host := splitEndpoint(s.Endpoint)
	const want = "a host such as s3.example.com or 192.0.2.10:9000"
	switch {
	case strings.Contains(host, "@"):
		// What is before it may be a password.
		c.fail("etcd-s3-endpoint", "", errors.New("it has credentials in it"),
			want+"; credentials are --etcd-s3-access-key and --etcd-s3-secret-key")
	case host == "" || strings.ContainsAny(host, "/?# ") || scheme != "" && scheme != "http" && scheme != "https":
		c.bad("etcd-s3-endpoint", s.Endpoint, want)
	case scheme == "http" && !s.Insecure:
		c.fail("etcd-s3-endpoint", s.Endpoint, errors.New("http:// is not encrypted"),
			"https://, or --etcd-s3-insecure as well")
	case scheme == "https" && s.Insecure:
		c.fail("etcd-s3-endpoint", s.Endpoint, errors.New("--etcd-s3-insecure is given"), "one of the two")
	}
}
