package affinity

import "bardo.money/gateway/extproc/pipeline"

// Prefixes are the layer's prefixes of an exchange.
func Prefixes(x *pipeline.Exchange) *[][16]byte { return &slot.Of(x).prefixes }
