package resolve

import "bardo.money/gateway/policy"

// WorstCost returns the highest possible cost of a request over its resolutions: every input token at the highest input price, and for each choice
// output tokens up to the model's limit. Negative counts are zero; an overflow is the largest amount.
func WorstCost(order []policy.Resolution, input, output, choices int64) policy.Pico {
	var worst policy.Pico
	for i := range order {
		worst = max(worst, worstAt(&order[i], input, output, choices))
	}
	return worst
}

func worstAt(r *policy.Resolution, input, output, choices int64) policy.Pico {
	if r.MaxOutput > 0 {
		output = min(output, int64(r.MaxOutput))
	}
	if r.Context > 0 { // a longer prompt is refused
		input = min(input, int64(r.Context))
	}
	in, out := r.Prices.MostExpensive(input)
	return r.Prices.PerRequest.Plus(in.Cost(input), out.Cost(output).Times(max(choices, 1)))
}
