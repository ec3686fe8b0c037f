package quota_test

import (
	"crypto/rand"
	"log/slog"
	"os"
	"regexp"
	"slices"
	"testing"
	"time"

	"bardo.money/gateway/internal/redistest"
	"bardo.money/gateway/policy/quota"
	"bardo.money/gateway/policy/quota/redis"
)

// open opens a gateway's store on a server.
func open(tb testing.TB, server *redistest.Server, secret []byte, timeout time.Duration) *redis.Store {
	tb.Helper()
	s, err := redis.Open(tb.Context(), redis.Options{URL: server.URL(), Secret: secret, Timeout: timeout, Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		if err := s.Close(); err != nil {
			tb.Error(err)
		}
	})
	return s
}

// longTimeout is a timeout that is long enough for a busy machine.
const longTimeout = 30 * time.Second

// TestTogether runs the tests of a limiter without a store with one that has its counters in Redis.
func TestTogether(t *testing.T) {
	server := redistest.Start(t)
	quota.Stored = func(tb testing.TB) quota.Store {
		tb.Helper()
		return open(tb, server, []byte(rand.Text()), longTimeout)
	}
	t.Cleanup(func() { quota.Stored = nil })
	for name, test := range everyStore {
		t.Run(name, test)
	}
}

var everyStore = map[string]func(*testing.T){
	"RateAllowsAFullMinuteAtOnceThenOneAtATime":              quota.TestRateAllowsAFullMinuteAtOnceThenOneAtATime,
	"TheLastPlaceOfABurstIsGivenWhateverTheOrderOfItsClocks": quota.TestTheLastPlaceOfABurstIsGivenWhateverTheOrderOfItsClocks,
	"AClockThatWasSetBackIsFollowed":                         quota.TestAClockThatWasSetBackIsFollowed,
	"LookupsHaveTenTimesTheRateOfTheirOwn":                   quota.TestLookupsHaveTenTimesTheRateOfTheirOwn,
	"LookupsDoNotCountAgainstTokensOrSpend":                  quota.TestLookupsDoNotCountAgainstTokensOrSpend,
	"LookupsHoldNothingAndReadNothing":                       quota.TestLookupsHoldNothingAndReadNothing,
	"WhoseLimitHolds":                                        quota.TestWhoseLimitHolds,
	"CallersAreToldApart":                                    quota.TestCallersAreToldApart,
	"ConcurrencyIsHeldUntilDone":                             quota.TestConcurrencyIsHeldUntilDone,
	"K70FiveConcurrentRequestsWithABudgetForOne":             quota.TestK70FiveConcurrentRequestsWithABudgetForOne,
	"K70WhatWasNotSpentIsFreeAgain":                          quota.TestK70WhatWasNotSpentIsFreeAgain,
	"K71NoStaleRefusal":                                      quota.TestK71NoStaleRefusal,
	"K72TheRequestThatCrossesTheLineCompletes":               quota.TestK72TheRequestThatCrossesTheLineCompletes,
	"K72RequestsUnderWayHoldTheirInput":                      quota.TestK72RequestsUnderWayHoldTheirInput,
	"OverageIsServedWhereItIsBilled":                         quota.TestOverageIsServedWhereItIsBilled,
	"AnUpdatedHoldCountsOnce":                                quota.TestAnUpdatedHoldCountsOnce,
	"P13WhatMayBeFreeIsNotRefusedForMoneyByItsHeaders":       quota.TestP13WhatMayBeFreeIsNotRefusedForMoneyByItsHeaders,
	"D84PrepaidPrincipalsHaveARateOfTheirOwn":                quota.TestD84PrepaidPrincipalsHaveARateOfTheirOwn,
	"TheStandingSaysWhatIsLeftOfTheRate":                     quota.TestTheStandingSaysWhatIsLeftOfTheRate,
	"ARefusedRequestCountsNowhere":                           quota.TestARefusedRequestCountsNowhere,
	"StandingCountsNothing":                                  quota.TestStandingCountsNothing,
	"SpendBeforeTheRestartCounts":                            quota.TestSpendBeforeTheRestartCounts,
	"SpendOfOtherProcessesCountsWithinASecond":               quota.TestSpendOfOtherProcessesCountsWithinASecond,
	"SpendThatCannotBeReadAdmitsNobody":                      quota.TestSpendThatCannotBeReadAdmitsNobody,
	"ARefusalByItsBodyReleasesAHoldOnce":                     quota.TestARefusalByItsBodyReleasesAHoldOnce,
	"WhatIsHeldNeverOverflows":                               quota.TestWhatIsHeldNeverOverflows,
	"WhatOthersSpentEndsWithItsDay":                          quota.TestWhatOthersSpentEndsWithItsDay,
	"AReadOutlivesTheRequestThatBeganIt":                     quota.TestAReadOutlivesTheRequestThatBeganIt,
	"WhatIsAnsweredLaterCounts":                              quota.TestWhatIsAnsweredLaterCounts,

	"AQuotaHoldsTheHighestCountAndKeepsTheActualOne": quota.TestAQuotaHoldsTheHighestCountAndKeepsTheActualOne,
	"AQuotaCountsPerScope":                           quota.TestAQuotaCountsPerScope,
	"AConditionSelectsTheRequestsOfAQuota":           quota.TestAConditionSelectsTheRequestsOfAQuota,
	"AQuotaWithoutAValueRefuses":                     quota.TestAQuotaWithoutAValueRefuses,
	"AUsageWithoutAValueCountsWhatWasHeld":           quota.TestAUsageWithoutAValueCountsWhatWasHeld,
	"D55ExemptRequestsAreCountedAndNotRefused":       quota.TestD55ExemptRequestsAreCountedAndNotRefused,
	"ARequestHoldsAQuotaOnce":                        quota.TestARequestHoldsAQuotaOnce,
	"ARefusalByOneQuotaLeavesNothingHeldInAnother":   quota.TestARefusalByOneQuotaLeavesNothingHeldInAnother,
	"AQuotaThatIsUsedUpForLongIsFinal":               quota.TestAQuotaThatIsUsedUpForLongIsFinal,
	"EachQuotaHoldsItsOwnAmount":                     quota.TestEachQuotaHoldsItsOwnAmount,
	"ReloadedQuotasKeepTheirCounters":                quota.TestReloadedQuotasKeepTheirCounters,
	"ADeferredRequestCountsItsInputAndThenTheRest":   quota.TestADeferredRequestCountsItsInputAndThenTheRest,
	"AmountsOfQuotasNeverOverflow":                   quota.TestAmountsOfQuotasNeverOverflow,
	"RequestsAtTheSameTimeCannotExceedAQuota":        quota.TestRequestsAtTheSameTimeCannotExceedAQuota,
	"RequestsOfQuotasInAStoreWaitForIt":              quota.TestRequestsOfQuotasInAStoreWaitForIt,
}

// unsharedOnly are the tests that apply only to a limiter without a store.
var unsharedOnly = []string{
	"ManyCallersAreBoundedAndTheBusyOnesKept",    // it looks into the table
	"WhetherAdmittingReads",                      // with a store admission always waits
	"ADayThatEndsDuringTheReadTakesNothingAlong", // it has no limiter
	"AQuotaExpectsTheMostExpensiveParts",         // the same
}

func TestEveryTestRunsWithAStore(t *testing.T) {
	for _, file := range []string{"quota_test.go", "measured_test.go"} {
		source, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range regexp.MustCompile(`(?m)^func Test(\w+)\(`).FindAllStringSubmatch(string(source), -1) {
			if everyStore[m[1]] == nil && !slices.Contains(unsharedOnly, m[1]) {
				t.Errorf("Test%s runs without a store alone", m[1])
			}
		}
	}
}
