package module

import (
	"net/http"

	"bardo.money/gateway/extproc/chat"
	"bardo.money/gateway/extproc/stream"
	"bardo.money/gateway/internal/header"
)

// panicReply answers a request that ended in a panic that the handler did not recover, in the client's format.
func panicReply(hd *stream.Head) stream.Reply {
	body := `{"error":{"message":"the gateway failed to handle this request","type":"api_error","code":"internal","param":null}}`
	switch hd.Dialect() {
	case chat.Anthropic:
		body = `{"type":"error","error":{"type":"api_error","message":"the gateway failed to handle this request"}}`
	case chat.Gemini:
		body = `{"error":{"code":500,"message":"the gateway failed to handle this request","status":"INTERNAL"}}`
	default:
	}
	return stream.Reply{Status: http.StatusInternalServerError, Header: header.List{{Name: "content-type", Value: header.JSON}}, Body: []byte(body)}
}
