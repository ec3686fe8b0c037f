package envoy

import (
	"path/filepath"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	tlsv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/transport_sockets/tls/v3"
	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"google.golang.org/protobuf/types/known/anypb"

	"bardo.money/gateway/xds/state"
)

// Files are PEM files on Envoy's machine: a certificate chain, its key, and the authorities that sign the other side's certificates.
type Files struct{ Cert, Key, CA string }

// SecretFiles returns the files that must be in the secret directory of a cluster's peer, by name. They name the files of the certificate, and hold
// no secret. Envoy reads a certificate again when its files are replaced, but only if it is configured as a secret; and it cannot request from the
// control plane the one that authenticates the control plane. One file holds one secret.
func SecretFiles(cluster string, f Files) (map[string][]byte, error) {
	var p Packer
	out := map[string][]byte{}
	for _, s := range []*tlsv3.Secret{
		{
			Name: certificateOf(cluster),
			Type: &tlsv3.Secret_TlsCertificate{TlsCertificate: &tlsv3.TlsCertificate{CertificateChain: file(f.Cert), PrivateKey: file(f.Key)}},
		},
		{
			Name: authoritiesOf(cluster),
			Type: &tlsv3.Secret_ValidationContext{ValidationContext: &tlsv3.CertificateValidationContext{TrustedCa: file(f.CA)}},
		},
	} {
		b, err := JSON(&discoveryv3.DiscoveryResponse{Resources: []*anypb.Any{p.Any(s)}})
		if err != nil {
			return nil, err
		}
		out[s.GetName()+".json"] = b
	}
	return out, p.Err()
}

func certificateOf(cluster string) string { return cluster + "_certificate" }
func authoritiesOf(cluster string) string { return cluster + "_authorities" }

// secretFrom refers to a secret in its own file.
func secretFrom(dir, name string) *tlsv3.SdsSecretConfig {
	return &tlsv3.SdsSecretConfig{Name: name, SdsConfig: &corev3.ConfigSource{
		ResourceApiVersion: corev3.ApiVersion_V3,
		ConfigSourceSpecifier: &corev3.ConfigSource_PathConfigSource{
			PathConfigSource: &corev3.PathConfigSource{Path: filepath.Join(dir, name+".json")},
		},
	}}
}

// peerTLS uses TLS 1.3 with a server of one exact name.
func peerTLS(cluster string, t *state.TLS) *tlsv3.UpstreamTlsContext {
	common := &tlsv3.CommonTlsContext{
		AlpnProtocols: []string{"h2"},
		TlsParams: &tlsv3.TlsParameters{
			TlsMinimumProtocolVersion: tlsv3.TlsParameters_TLSv1_3, TlsMaximumProtocolVersion: tlsv3.TlsParameters_TLSv1_3,
		},
	}
	if t.SecretDir != "" {
		common.TlsCertificateSdsSecretConfigs = []*tlsv3.SdsSecretConfig{secretFrom(t.SecretDir, certificateOf(cluster))}
		common.ValidationContextType = &tlsv3.CommonTlsContext_CombinedValidationContext{
			CombinedValidationContext: &tlsv3.CommonTlsContext_CombinedCertificateValidationContext{
				DefaultValidationContext:         Validation(t.ServerName, nil),
				ValidationContextSdsSecretConfig: secretFrom(t.SecretDir, authoritiesOf(cluster)),
			},
		}
		return &tlsv3.UpstreamTlsContext{Sni: t.ServerName, CommonTlsContext: common}
	}
	common.ValidationContextType = &tlsv3.CommonTlsContext_ValidationContext{ValidationContext: Validation(t.ServerName, inline(t.CAPEM))}
	if len(t.CertPEM) > 0 {
		common.TlsCertificates = []*tlsv3.TlsCertificate{{CertificateChain: inline(t.CertPEM), PrivateKey: inline(t.KeyPEM)}}
	}
	return &tlsv3.UpstreamTlsContext{Sni: t.ServerName, CommonTlsContext: common}
}

func file(path string) *corev3.DataSource {
	return &corev3.DataSource{Specifier: &corev3.DataSource_Filename{Filename: path}}
}
