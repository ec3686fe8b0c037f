package extproc

import (
	"bytes"
	"testing"

	ep "github.com/envoyproxy/go-control-plane/envoy/service/ext_proc/v3"
)

// envoy is Envoy's end of one stream: it keeps what it is sent.
type envoy struct {
	ep.ExternalProcessor_ProcessServer
	got []*ep.ProcessingResponse
}

func (e *envoy) SendMsg(m any) error {
	c, err := newCodec()
	if err != nil {
		return err
	}
	data, err := c.Marshal(m)
	if err != nil {
		return err
	}
	r := &ep.ProcessingResponse{}
	e.got = append(e.got, r)
	return c.Unmarshal(data, r)
}

// TestK51LargeBodiesGoInPieces: Envoy takes at most 64 KiB of a streamed body in one message.
func TestK51LargeBodiesGoInPieces(t *testing.T) {
	sent := func(r *ep.ProcessingResponse) *ep.StreamedBodyResponse {
		if b := r.GetRequestBody(); b != nil {
			return b.GetResponse().GetBodyMutation().GetStreamedResponse()
		}
		if b := r.GetResponseBody(); b != nil {
			return b.GetResponse().GetBodyMutation().GetStreamedResponse()
		}
		return r.GetStreamedImmediateResponse().GetBodyResponse()
	}
	for name, send := range map[string]func(*envoyDoor, []byte) error{
		"a request":         func(d *envoyDoor, b []byte) error { return d.Forward(forward{body: b, groups: []string{"p"}}) },
		"an answer":         func(d *envoyDoor, b []byte) error { return d.Answer(reply{body: b}, nil) },
		"an answer of ours": func(d *envoyDoor, b []byte) error { return d.StreamBody(b, true) },
	} {
		for _, size := range []int{0, 1, bodyChunk - 1, bodyChunk, bodyChunk + 1, 64<<10 + 1, 3*bodyChunk + 7, 10 << 20} {
			e := &envoy{}
			body := bytes.Repeat([]byte("0123456"), size/7+1)[:size]
			if err := send(&envoyDoor{stream: e}, body); err != nil {
				t.Fatal(err)
			}
			var whole []byte
			ends := 0
			for _, r := range e.got {
				s := sent(r)
				if s == nil { // the head
					continue
				}
				if len(s.GetBody()) > 64<<10 {
					t.Errorf("%s of %d bytes: a piece of %d", name, size, len(s.GetBody()))
				}
				if ends > 0 {
					t.Errorf("%s of %d bytes: a piece after the end", name, size)
				}
				if s.GetEndOfStream() {
					ends++
				}
				whole = append(whole, s.GetBody()...)
			}
			if ends != 1 || !bytes.Equal(whole, body) {
				t.Errorf("%s of %d bytes: %d bytes arrived, %d ends", name, size, len(whole), ends)
			}
		}
	}
}
