package affinity

import "bardo.money/gateway/extproc/pipeline"

// Prefixes are what the layer keeps of an exchange.
func Prefixes(x *pipeline.Exchange) *[][16]byte { return &slot.Of(x).prefixes }
