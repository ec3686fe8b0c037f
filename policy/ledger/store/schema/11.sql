-- What a wallet owes: of payments that never arrived, what was not there when they were taken back, and was not recovered since. Who owes is blocked.
ALTER TABLE balance ADD COLUMN owed INTEGER NOT NULL DEFAULT 0 CHECK (owed >= 0 AND (owed = 0 OR blocked = 1));

-- What is not owed any more, and was not recovered.
ALTER TABLE balance ADD COLUMN forgiven INTEGER NOT NULL DEFAULT 0 CHECK (forgiven >= 0);

-- In earlier versions the next payment of a wallet was enough, whatever had been lost before: that is forgiven. Wallets that have not paid since owe it.
WITH lost AS (
	SELECT a.id AS account, j.id AS journal, -e.amount AS micro
	FROM journal j JOIN entry e ON e.journal = j.id AND e.account = 3
	JOIN account a ON a.name = substr(j.idem, 6, length(j.idem) - length(j.ref) - 6)
	WHERE substr(j.idem, 1, 5) = 'lost:'
), credited AS (
	SELECT e.account, max(e.journal) AS journal
	FROM entry e JOIN journal j ON j.id = e.journal WHERE j.kind = 'deposit' AND e.amount > 0 AND e.account > 3 GROUP BY e.account
), losses AS (
	SELECT l.account, sum(l.micro) AS lost, sum(CASE WHEN b.blocked = 1 AND l.journal > coalesce(c.journal, 0) THEN l.micro ELSE 0 END) AS owed
	FROM lost l JOIN balance b ON b.account = l.account LEFT JOIN credited c ON c.account = l.account GROUP BY l.account
)
UPDATE balance SET owed = s.owed, forgiven = s.lost - s.owed FROM losses s WHERE s.account = balance.account;

-- What such a wallet has by now is taken.
INSERT INTO journal (id, idem, kind, at, ref)
	SELECT (SELECT max(id) FROM journal) + row_number() OVER (ORDER BY b.account), 'recovered:' || a.name || ':0', 'deposit', CAST(strftime('%s', 'now') AS INTEGER) * 1000000, 'recovered'
	FROM balance b JOIN account a ON a.id = b.account WHERE b.owed > 0 AND b.micro > b.held;

INSERT INTO entry (journal, account, amount)
	SELECT j.id, b.account, -CASE WHEN b.owed < b.micro - b.held THEN b.owed ELSE b.micro - b.held END
	FROM balance b JOIN account a ON a.id = b.account JOIN journal j ON j.idem = 'recovered:' || a.name || ':0';

INSERT INTO entry (journal, account, amount)
	SELECT j.id, 3, CASE WHEN b.owed < b.micro - b.held THEN b.owed ELSE b.micro - b.held END
	FROM balance b JOIN account a ON a.id = b.account JOIN journal j ON j.idem = 'recovered:' || a.name || ':0';

UPDATE balance SET owed = owed - CASE WHEN owed < micro - held THEN owed ELSE micro - held END, micro = micro - CASE WHEN owed < micro - held THEN owed ELSE micro - held END
	WHERE owed > 0 AND micro > held;
