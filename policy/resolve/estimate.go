package resolve

import "bardo.money/gateway/policy"

// WorstCost is the most that a request may cost at any of its resolutions: every input token at the dearest rate an input
// token can have there, and for each of the choices that were asked for output tokens up to the model's own limit. Counts
// below zero are zero; a cost beyond what an amount can hold is the largest amount.
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
	if r.Context > 0 { // what does not fit is refused
		input = min(input, int64(r.Context))
	}
	in, out := r.Prices.Dearest(input)
	return r.Prices.PerRequest.Plus(in.Cost(input), out.Cost(output).Times(max(choices, 1)))
}
