package gemini

import (
	"strconv"
	"time"

	"bardo.money/gateway/internal/fault"
	"bardo.money/gateway/internal/jsonx"
)

// statuses maps HTTP statuses to Google's status names.
var statuses = map[int]string{
	400: "INVALID_ARGUMENT", 401: "UNAUTHENTICATED", 402: "FAILED_PRECONDITION", 403: "PERMISSION_DENIED", 404: "NOT_FOUND", 405: "UNIMPLEMENTED", 410: "NOT_FOUND",
	408: "DEADLINE_EXCEEDED", 409: "ABORTED", 429: "RESOURCE_EXHAUSTED", 499: "CANCELLED", 500: "INTERNAL", 501: "UNIMPLEMENTED",
	502: "UNAVAILABLE", 503: "UNAVAILABLE", 504: "DEADLINE_EXCEEDED", 529: "UNAVAILABLE",
}

// StatusName returns Google's status name for an HTTP status.
func StatusName(status int) string {
	if word, ok := statuses[status]; ok {
		return word
	}
	if status >= 400 && status < 500 {
		return statuses[400]
	}
	return statuses[500]
}

// Error returns the body of a JSON error as Google's SDKs expect it. The gateway's code is the reason in its details.
func (Dialect) Error(f *fault.Fault, requestID string) []byte { return appendError(nil, f, requestID) }

const typePrefix = `{"@type":"type.googleapis.com/google.rpc.`

func appendError(dst []byte, f *fault.Fault, requestID string) []byte {
	status := f.HTTPStatus()
	dst = strconv.AppendInt(append(dst, `{"error":{"code":`...), int64(status), 10)
	dst = jsonx.AppendString(append(dst, `,"message":`...), f.Public)
	dst = append(append(append(dst, `,"status":"`...), StatusName(status)...), `","details":[`...)
	dst = append(dst, typePrefix+`ErrorInfo","reason":`...)
	dst = append(jsonx.AppendString(dst, f.CodeString()), `,"domain":"bardo.money"`...)
	if requestID != "" {
		dst = append(jsonx.AppendString(append(dst, `,"metadata":{"request_id":`...), requestID), '}')
	}
	dst = append(dst, '}')
	if f.Param != "" {
		dst = jsonx.AppendString(append(dst, `,`+typePrefix+`BadRequest","fieldViolations":[{"field":`...), f.Param)
		dst = append(jsonx.AppendString(append(dst, `,"description":`...), f.Public), `}]}`...)
	}
	if wait := f.Wait(); wait > 0 {
		seconds := int64((wait + time.Second - 1) / time.Second)
		dst = append(strconv.AppendInt(append(dst, `,`+typePrefix+`RetryInfo","retryDelay":"`...), seconds, 10), `s"}`...)
	}
	if f.Details != "" {
		dst = append(append(append(dst, `,{"@type":"type.googleapis.com/google.protobuf.Struct","value":`...), f.Details...), '}')
	}
	return append(dst, `]}}`...)
}
