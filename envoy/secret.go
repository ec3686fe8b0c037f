package envoy

import (
	"path/filepath"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	tlsv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/transport_sockets/tls/v3"
	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"google.golang.org/protobuf/types/known/anypb"

	"bardo.money/gateway/xds/state"
)

// SecretSource says where Envoy finds a secret by its name. Files are read again when they change only if they come as secrets.
type SecretSource func(name string) *corev3.ConfigSource

// FromADS has secrets come with the rest of the configuration.
func FromADS(string) *corev3.ConfigSource {
	return &corev3.ConfigSource{
		ResourceApiVersion:    corev3.ApiVersion_V3,
		ConfigSourceSpecifier: &corev3.ConfigSource_Ads{Ads: &corev3.AggregatedConfigSource{}},
	}
}

// fromDir has each secret in a file of its own, which is there before the control plane is.
func fromDir(dir string) SecretSource {
	return func(name string) *corev3.ConfigSource {
		return &corev3.ConfigSource{
			ResourceApiVersion: corev3.ApiVersion_V3,
			ConfigSourceSpecifier: &corev3.ConfigSource_PathConfigSource{
				PathConfigSource: &corev3.PathConfigSource{Path: filepath.Join(dir, secretFile(name))},
			},
		}
	}
}

func secretFile(name string) string { return name + ".json" }

// The two secrets of a peer's cluster.
func certificateOf(cluster string) string { return cluster + "_certificate" }
func authoritiesOf(cluster string) string { return cluster + "_authorities" }

// PeerSecrets are what the cluster of a peer that is known by files refers to; none for other peers.
func PeerSecrets(cluster string, peer state.Peer) []*tlsv3.Secret {
	if peer.TLS == nil || peer.TLS.Files == nil {
		return nil
	}
	f := peer.TLS.Files
	return []*tlsv3.Secret{
		{
			Name: certificateOf(cluster),
			Type: &tlsv3.Secret_TlsCertificate{TlsCertificate: &tlsv3.TlsCertificate{CertificateChain: file(f.Cert), PrivateKey: file(f.Key)}},
		},
		{
			Name: authoritiesOf(cluster),
			Type: &tlsv3.Secret_ValidationContext{ValidationContext: &tlsv3.CertificateValidationContext{TrustedCa: file(f.CA)}},
		},
	}
}

// secretFiles are the files that a bootstrap refers to, by name. They name files, and hold no secret themselves.
func secretFiles(p *Packer, cluster string, peer state.Peer) (map[string][]byte, error) {
	out := map[string][]byte{}
	for _, s := range PeerSecrets(cluster, peer) {
		b, err := JSON(&discoveryv3.DiscoveryResponse{Resources: []*anypb.Any{p.Any(s)}})
		if err != nil {
			return nil, err
		}
		out[secretFile(s.GetName())] = b
	}
	return out, p.Err()
}

// peerTLS speaks TLS 1.3 with a server of one exact name.
func peerTLS(cluster string, t *state.TLS, secrets SecretSource) *tlsv3.UpstreamTlsContext {
	common := &tlsv3.CommonTlsContext{
		AlpnProtocols: []string{"h2"},
		TlsParams: &tlsv3.TlsParameters{
			TlsMinimumProtocolVersion: tlsv3.TlsParameters_TLSv1_3, TlsMaximumProtocolVersion: tlsv3.TlsParameters_TLSv1_3,
		},
	}
	if t.Files != nil {
		common.TlsCertificateSdsSecretConfigs = []*tlsv3.SdsSecretConfig{{Name: certificateOf(cluster), SdsConfig: secrets(certificateOf(cluster))}}
		common.ValidationContextType = &tlsv3.CommonTlsContext_CombinedValidationContext{
			CombinedValidationContext: &tlsv3.CommonTlsContext_CombinedCertificateValidationContext{
				DefaultValidationContext:         Validation(t.ServerName, nil),
				ValidationContextSdsSecretConfig: &tlsv3.SdsSecretConfig{Name: authoritiesOf(cluster), SdsConfig: secrets(authoritiesOf(cluster))},
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
