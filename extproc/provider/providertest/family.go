package providertest

import (
	"bardo.money/gateway/extproc/chat"
	"bardo.money/gateway/extproc/provider"
	"bardo.money/gateway/internal/header"
	"bardo.money/gateway/policy"
)

// OfFamily returns an adapter for models of one family, for adapters with several formats.
func OfFamily(a provider.Adapter, family string) provider.Adapter { return ofFamily{a, family} }

type ofFamily struct {
	provider.Adapter
	family string
}

func (f ofFamily) Name() string { return f.Adapter.Name() + " " + f.family }

func (f ofFamily) to(r policy.Resolution) policy.Resolution {
	r.Family = f.family
	return r
}

func (f ofFamily) Dialect(to policy.Resolution, at provider.Endpoint, d chat.Dialect) chat.Dialect {
	return f.Adapter.Dialect(f.to(to), at, d)
}

func (f ofFamily) Encode(buf []byte, req *chat.Request, to policy.Resolution, at provider.Endpoint) (*provider.Call, error) {
	return f.Adapter.Encode(buf, req, f.to(to), at)
}

func (f ofFamily) NewDecoder(req *chat.Request, to policy.Resolution, at provider.Endpoint, status int, h header.List) provider.Decoder {
	return f.Adapter.NewDecoder(req, f.to(to), at, status, h)
}
