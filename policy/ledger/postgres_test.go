package ledger

import (
	"context"
	"net/url"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"bardo.money/gateway/policy/ledger/postgres"
	"bardo.money/gateway/policy/ledger/postgres/postgrestest"
	"bardo.money/gateway/policy/ledger/store"
)

// inPostgres reports whether a test of every store runs on PostgreSQL.
func inPostgres(t testing.TB) bool {
	t.Helper()
	return strings.Contains(t.Name(), "Postgres/")
}

// open is Open with the options for a store in PostgreSQL.
func open(ctx context.Context, name string, o Options) (*Ledger, error) {
	if err := forPostgres(&o, name); err != nil {
		return nil, err
	}
	return Open(ctx, name, o)
}

// forPostgres adds the options for a store in PostgreSQL. All handles of the same store are on one machine.
func forPostgres(o *Options, name string) error {
	if !store.IsPostgres(name) || o.Dir != "" {
		return nil
	}
	u, err := url.Parse(name)
	if err != nil {
		return err
	}
	o.Connect = postgres.Connect
	o.Dir = filepath.Join(u.Query().Get("host"), "files-of-"+path.Base(u.Path))
	return os.MkdirAll(o.Dir, 0o700)
}

// emptyLedgers are stores in PostgreSQL with the schema and nothing else. Each has an id of its own, like those that Open makes.
var emptyLedgers = postgrestest.Copies{Fill: func(url string) error {
	l, err := Open(context.Background(), url, Options{Connect: postgres.Connect, Dir: os.TempDir()})
	if err != nil {
		return err
	}
	return l.Close()
}, Each: `UPDATE ledger SET id = substr(replace(gen_random_uuid()::text, '-', ''), 1, 12)`}

// TestPostgres runs the tests of every store on PostgreSQL.
func TestPostgres(t *testing.T) {
	for name, test := range everyStore {
		t.Run(name, test)
	}
}

var everyStore = map[string]func(*testing.T){
	"AReadThatTheStoreDoesNotAnswerIsUnavailable":        TestAReadThatTheStoreDoesNotAnswerIsUnavailable,
	"ALossIsForgivenOnce":                                TestALossIsForgivenOnce,
	"OnlyWhatIsOwedIsForgiven":                           TestOnlyWhatIsOwedIsForgiven,
	"ALossIsWhatItsRequestCost":                          TestALossIsWhatItsRequestCost,
	"OnlyLossesAreForgiven":                              TestOnlyLossesAreForgiven,
	"ForgivingBesidePayments":                            TestForgivingBesidePayments,
	"WhatVersion11ForgaveIsForgiven":                     TestWhatVersion11ForgaveIsForgiven,
	"ReportsSumWhatTheLedgerCharged":                     TestReportsSumWhatTheLedgerCharged,
	"ReportsOfSome":                                      TestReportsOfSome,
	"ReportsThatAreRefused":                              TestReportsThatAreRefused,
	"ExportsAreOfAPeriod":                                TestExportsAreOfAPeriod,
	"SumsOfVersion9":                                     TestSumsOfVersion9,
	"RequestsOfAProviderAreSummed":                       TestRequestsOfAProviderAreSummed,
	"AWalletsPaymentIsCreditedOnceAndTakenBackOnce":      TestAWalletsPaymentIsCreditedOnceAndTakenBackOnce,
	"WhatAWalletOwesIsTakenOfWhatComesIn":                TestWhatAWalletOwesIsTakenOfWhatComesIn,
	"AWalletThatCoversItsLossIsNotBlocked":               TestAWalletThatCoversItsLossIsNotBlocked,
	"ADeadGatewaysBlocksPayAWalletsDebt":                 TestADeadGatewaysBlocksPayAWalletsDebt,
	"TheCostOfAServedRequestIsSetAside":                  TestTheCostOfAServedRequestIsSetAside,
	"AChargeLogHasTheStandingHoldOfItsRequest":           TestAChargeLogHasTheStandingHoldOfItsRequest,
	"CreditsAtTheSameTimePayALossOnce":                   TestCreditsAtTheSameTimePayALossOnce,
	"WhatAWalletHasAndOwesIsWhatItPaidLessWhatItUsed":    TestWhatAWalletHasAndOwesIsWhatItPaidLessWhatItUsed,
	"LossesOfVersion10":                                  TestLossesOfVersion10,
	"WhatABlockHasIsKeptWhileTheStoreIsAway":             TestWhatABlockHasIsKeptWhileTheStoreIsAway,
	"AnAuditChecksDiscrepanciesOfLogsAgain":              TestAnAuditChecksDiscrepanciesOfLogsAgain,
	"AuditFindsViolations":                               TestAuditFindsViolations,
	"AuditIsReadableByPrograms":                          TestAuditIsReadableByPrograms,
	"AnAuditLeavesARunningGatewaysBlocksAlone":           TestAnAuditLeavesARunningGatewaysBlocksAlone,
	"AGroupIsAppliedLikeItsChargesOneByOne":              TestAGroupIsAppliedLikeItsChargesOneByOne,
	"ABalanceIsUpdatedOnceForAGroup":                     TestABalanceIsUpdatedOnceForAGroup,
	"Capture":                                            TestCapture,
	"CaptureChargesARequestOnce":                         TestCaptureChargesARequestOnce,
	"ConcurrentCapturesOfARequestChargeItOnce":           TestConcurrentCapturesOfARequestChargeItOnce,
	"ARequestIDBelongsToOneKey":                          TestARequestIDBelongsToOneKey,
	"ALossBlocksTheKeyUntilADeposit":                     TestALossBlocksTheKeyUntilADeposit,
	"K34ACallerWhoHangsUpStillPays":                      TestK34ACallerWhoHangsUpStillPays,
	"CaptureAfterReleaseStillCharges":                    TestCaptureAfterReleaseStillCharges,
	"AReleaseDuringACaptureFreesNothing":                 TestAReleaseDuringACaptureFreesNothing,
	"MoneyOfALostBlockIsNotFree":                         TestMoneyOfALostBlockIsNotFree,
	"ChargesOutOfRangeAreRefused":                        TestChargesOutOfRangeAreRefused,
	"ManyKeysConcurrently":                               TestManyKeysConcurrently,
	"AKilledGatewayLosesNothing":                         TestAKilledGatewayLosesNothing,
	"TheLastFeedbackCounts":                              TestTheLastFeedbackCounts,
	"OldFeedbackIsPruned":                                TestOldFeedbackIsPruned,
	"ReasonsAreStoredEncrypted":                          TestReasonsAreStoredEncrypted,
	"ReasonsOfEarlierVersionsAreEncrypted":               TestReasonsOfEarlierVersionsAreEncrypted,
	"D83RandomCrashesLoseNoMoreThanTheWindow":            TestD83RandomCrashesLoseNoMoreThanTheWindow,
	"D83ACrashAtEveryStep":                               TestD83ACrashAtEveryStep,
	"D83AFullDiskAtEveryStep":                            TestD83AFullDiskAtEveryStep,
	"AResourceHasOneOwner":                               TestAResourceHasOneOwner,
	"AResourceKeepsItsOwnerWhileAnotherEntryWaits":       TestAResourceKeepsItsOwnerWhileAnotherEntryWaits,
	"AResourceOutlivesAGateway":                          TestAResourceOutlivesAGateway,
	"ManyResourcesAreFound":                              TestManyResourcesAreFound,
	"AKeyIsReadAsItWasWritten":                           TestAKeyIsReadAsItWasWritten,
	"ChangesOfKeysThatAreRefused":                        TestChangesOfKeysThatAreRefused,
	"AMeteredKeyCanBecomePrepaid":                        TestAMeteredKeyCanBecomePrepaid,
	"ARevocationByAnotherProcessIsNoticed":               TestARevocationByAnotherProcessIsNoticed,
	"TheGenerationMovesWithKeysAlone":                    TestTheGenerationMovesWithKeysAlone,
	"ADepositCountsOnce":                                 TestADepositCountsOnce,
	"AStoreCanBeOpenedAfterAGatewayStopped":              TestAStoreCanBeOpenedAfterAGatewayStopped,
	"AClosedLedgerReturnsErrClosed":                      TestAClosedLedgerReturnsErrClosed,
	"D82FailedCommitsAndRestartsLoseNoMoney":             TestD82FailedCommitsAndRestartsLoseNoMoney,
	"D83AStoreThatCannotBeWrittenIsNoOutage":             TestD83AStoreThatCannotBeWrittenIsNoOutage,
	"D83WhatNeedsTheStoreFailsWithoutIt":                 TestD83WhatNeedsTheStoreFailsWithoutIt,
	"D83AChargeAboveItsHoldWithoutTheStore":              TestD83AChargeAboveItsHoldWithoutTheStore,
	"D82ALogThatFailsClosesTheLedger":                    TestD82ALogThatFailsClosesTheLedger,
	"D83ADurableChargeWaitsForTheDisk":                   TestD83ADurableChargeWaitsForTheDisk,
	"AMistakeInAChangeIsNoOutage":                        TestAMistakeInAChangeIsNoOutage,
	"D82ALockThatAnotherProcessHolds":                    TestD82ALockThatAnotherProcessHolds,
	"D82TooManyWaitingChargesAreRefused":                 TestD82TooManyWaitingChargesAreRefused,
	"D83ChargesInTheLogOutliveACrash":                    TestD83ChargesInTheLogOutliveACrash,
	"ALogOfAnotherStoreIsKept":                           TestALogOfAnotherStoreIsKept,
	"ReadYourWritesOfRecordsThatAreWrittenBehind":        TestReadYourWritesOfRecordsThatAreWrittenBehind,
	"RandomOperationsKeepTheBooks":                       TestRandomOperationsKeepTheBooks,
	"RefusalsAreCountedByKeyMinuteAndReason":             TestRefusalsAreCountedByKeyMinuteAndReason,
	"TheLatestRefusalsCanBeLookedUp":                     TestTheLatestRefusalsCanBeLookedUp,
	"RefusalsAreWrittenAtTheEndAndPrunedLater":           TestRefusalsAreWrittenAtTheEndAndPrunedLater,
	"RequestsAreListedLatestFirst":                       TestRequestsAreListedLatestFirst,
	"X10RequestsAreReadOnByTheirMarks":                   TestX10RequestsAreReadOnByTheirMarks,
	"ReserveRefuses":                                     TestReserveRefuses,
	"ReserveNow":                                         TestReserveNow,
	"ExtendAddsToAHold":                                  TestExtendAddsToAHold,
	"ReserveRefusesMoreThanThereIs":                      TestReserveRefusesMoreThanThereIs,
	"ReserveUsesTheCredit":                               TestReserveUsesTheCredit,
	"K70FiveRequestsAndMoneyForOne":                      TestK70FiveRequestsAndMoneyForOne,
	"K70ThreeHundredOfAThousand":                         TestK70ThreeHundredOfAThousand,
	"AllSmallReservesThatFitAreGranted":                  TestAllSmallReservesThatFitAreGranted,
	"K71ADepositOfAnotherProcessCountsAtOnce":            TestK71ADepositOfAnotherProcessCountsAtOnce,
	"K71ARefusedKeyIsServedAgainAfterARelease":           TestK71ARefusedKeyIsServedAgainAfterARelease,
	"AReserveOutOfTheBlockWritesNothing":                 TestAReserveOutOfTheBlockWritesNothing,
	"AnIdleKeysBlockIsReturned":                          TestAnIdleKeysBlockIsReturned,
	"HoldsAreCountedUntilTheyEnd":                        TestHoldsAreCountedUntilTheyEnd,
	"SavingsAreSummedByLayer":                            TestSavingsAreSummedByLayer,
	"KilledGatewaysThatShareAStoreLoseNothing":           TestKilledGatewaysThatShareAStoreLoseNothing,
	"RandomOperationsAndDeathsOfTwoGatewaysKeepTheBooks": TestRandomOperationsAndDeathsOfTwoGatewaysKeepTheBooks,
	"TwoGatewaysChargeOneBalance":                        TestTwoGatewaysChargeOneBalance,
	"AGatewayReturnsMoneyThatAnotherNeeds":               TestAGatewayReturnsMoneyThatAnotherNeeds,
	"ACaptureAboveItsHoldAsksTheOthersBeforeItIsALoss":   TestACaptureAboveItsHoldAsksTheOthersBeforeItIsALoss,
	"K70FiveRequestsAndMoneyForOneOverTwoGateways":       TestK70FiveRequestsAndMoneyForOneOverTwoGateways,
	"ARefusalDoesNotWaitForGatewaysThatHaveAnswered":     TestARefusalDoesNotWaitForGatewaysThatHaveAnswered,
	"AReserveWaitsNoLongerThanReserveWaitOrItsContext":   TestAReserveWaitsNoLongerThanReserveWaitOrItsContext,
	"ABlockedKeyIsBlockedEverywhere":                     TestABlockedKeyIsBlockedEverywhere,
	"SpentOfOtherGatewaysIsSeen":                         TestSpentOfOtherGatewaysIsSeen,
	"ARevocationReachesTheOtherGateway":                  TestARevocationReachesTheOtherGateway,
	"ARunningGatewayRecoversADeadOne":                    TestARunningGatewayRecoversADeadOne,
	"OpenRecoversDeadGateways":                           TestOpenRecoversDeadGateways,
	"ADeadGatewaysBlocksAreReturnedOnce":                 TestADeadGatewaysBlocksAreReturnedOnce,
	"AnInstanceIDIsNeverReused":                          TestAnInstanceIDIsNeverReused,
	"AGatewayWithARemovedLockFileKeepsItsBlocks":         TestAGatewayWithARemovedLockFileKeepsItsBlocks,
	"ManyMayOpenANewStoreConcurrently":                   TestManyMayOpenANewStoreConcurrently,
	"SolventRefusesKeysThatHaveNothing":                  TestSolventRefusesKeysThatHaveNothing,
	"WhatAgentsSpendIsCommittedWithTheirCharges":         TestWhatAgentsSpendIsCommittedWithTheirCharges,
	"WhatStakedCreditPaidForIsCountedForEverybody":       TestWhatStakedCreditPaidForIsCountedForEverybody,
	"WhatAgentsSpentInOneGroupIsReadInIt":                TestWhatAgentsSpentInOneGroupIsReadInIt,
	"SpendingOfAgentsIsPrunedAfterYesterday":             TestSpendingOfAgentsIsPrunedAfterYesterday,
	"AStandingHoldOutlivesItsGateway":                    TestAStandingHoldOutlivesItsGateway,
	"ARequestThatWasChargedIsNotChargedAgain":            TestARequestThatWasChargedIsNotChargedAgain,
	"AStandingHoldIsReleasedOnce":                        TestAStandingHoldIsReleasedOnce,
	"AnOldStandingHoldIsReleased":                        TestAnOldStandingHoldIsReleased,
	"ANewerStoreIsRefused":                               TestANewerStoreIsRefused,
	"AGroupsRequestsAreSummedOnce":                       TestAGroupsRequestsAreSummedOnce,
	"AFailedChangeAddsNothingToTheSums":                  TestAFailedChangeAddsNothingToTheSums,
	"ARequestIsReadAsItWasCharged":                       TestARequestIsReadAsItWasCharged,
	"MeteredRequestsAreWrittenBehind":                    TestMeteredRequestsAreWrittenBehind,
	"Usage":                                              TestUsage,
	"SpentSince":                                         TestSpentSince,
	"B05KeysOfProjectsOfOwners":                          TestB05KeysOfProjectsOfOwners,
	"ChangesOfGroupsThatAreRefused":                      TestChangesOfGroupsThatAreRefused,
	"OldRequestsArePruned":                               TestOldRequestsArePruned,
	"EntriesAreCommittedWithTheNextGroup":                TestEntriesAreCommittedWithTheNextGroup,
	"ACaptureSucceedsAfterAFailedCommit":                 TestACaptureSucceedsAfterAFailedCommit,
}

// ofFiles are the tests of the file or of SQLite, and those without a store.
var ofFiles = []string{
	"ADamagedBalanceIsNotChargedANegativeAmount",
	"TheStoreIsPrivate",
	"D82AStoreOfItsGreatestSizeIsFull",
	"D82AFolderThatWasMovedAwayAndComesBack",
	"D82AFolderThatWasDeletedAndIsRestored",
	"D82AStoreThatIsReadOnly",
	"AnInstanceIDWhoseLockIsTakenIsSkipped",
	"TheSameStoreByAnotherNameIsTheSameStore",
	"APathMayHaveAnyCharacters",
	"AFileThatIsNoStoreIsRefused",
	"AFailedOpenLeavesNoLock",
	"AGatewayWhoseLockFileIsRemovedKeepsTheBooksRight",
	"AStoreOfTheFirstVersionIsMigrated",
	"AStoreIsNotMigratedUnderARunningGateway",
	"AStoreOfAnEarlierVersionCountsWhatAgentsSpend",
	"ABlockIsBounded",
}

// TestEveryTestRunsOnBothStores finds the tests that are in none of the lists above.
func TestEveryTestRunsOnBothStores(t *testing.T) {
	files, err := filepath.Glob("*_test.go")
	if err != nil {
		t.Fatal(err)
	}
	name := regexp.MustCompile(`(?m)^func Test(\w+)\(t \*testing\.T\)`)
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range name.FindAllStringSubmatch(string(text), -1) {
			if _, both := everyStore[m[1]]; !both && !slices.Contains(ofFiles, m[1]) && !strings.HasPrefix(file, "postgres") {
				t.Errorf("%s: Test%s is in neither list of postgres_test.go", file, m[1])
			}
		}
	}
}
