package request

import (
	"errors"
	"slices"

	"bardo.money/gateway/extproc/chat"
	"bardo.money/gateway/extproc/wire"
	"bardo.money/gateway/policy"
	"bardo.money/gateway/policy/resolve"
)

// Content is never removed from a request (D-86): a candidate whose format cannot express it is not called.

// FilterByContent removes the candidates whose format cannot express some of the request's content. The error, if none is left, is a fault
// that names the content.
func (v *View) FilterByContent() error {
	var first *wire.Unsupported
	v.Found = slices.DeleteFunc(v.Found, func(to policy.Resolution) bool {
		u := v.Config.UnsupportedContent(v.Request, &to)
		if first == nil {
			first = u
		}
		return u != nil
	})
	if len(v.Found) == 0 {
		return first.Fault()
	}
	return nil
}

// WithContentPath adds the JSON path of the content to a resolver's error about unsupported content; it returns any other error unchanged.
func WithContentPath(req *chat.Request, err error) error {
	u, ok := errors.AsType[*resolve.UnsupportedContentError](err)
	if !ok {
		return err
	}
	c, cerr := req.Conversation()
	if cerr != nil {
		return err
	}
	for _, kind := range partsOfFeature[u.Content] {
		if at := wire.FirstOf(c, kind, u.What); at != nil {
			return at.Fault()
		}
	}
	return err
}

// partsOfFeature lists the kinds of message parts that need a model with the feature.
var partsOfFeature = map[policy.Feature][]chat.PartKind{ //nolint:exhaustive // no other is about content
	policy.Vision: {chat.PartImage}, policy.Audio: {chat.PartAudio}, policy.Video: {chat.PartVideo}, policy.Documents: {chat.PartDocument},
}
