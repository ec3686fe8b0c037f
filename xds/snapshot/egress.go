package snapshot

import (
	accesslogv3 "github.com/envoyproxy/go-control-plane/envoy/config/accesslog/v3"
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	hcmv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/http_connection_manager/v3"

	"bardo.money/gateway/xds/state"
)

// egressReplies mark Envoy's own answers, so that the sidecar can distinguish a provider's 503 from a failed connection.
func (b *builder) egressReplies() *hcmv3.LocalReplyConfig {
	return &hcmv3.LocalReplyConfig{Mappers: []*hcmv3.ResponseMapper{{
		Filter: &accesslogv3.AccessLogFilter{FilterSpecifier: &accesslogv3.AccessLogFilter_NotHealthCheckFilter{
			NotHealthCheckFilter: &accesslogv3.NotHealthCheckFilter{},
		}},
		HeadersToAdd: []*corev3.HeaderValueOption{{
			AppendAction: corev3.HeaderValueOption_OVERWRITE_IF_EXISTS_OR_ADD,
			Header:       &corev3.HeaderValue{Key: state.HeaderFailure, Value: "%RESPONSE_CODE_DETAILS% %UPSTREAM_HOST%"},
		}},
	}}}
}
