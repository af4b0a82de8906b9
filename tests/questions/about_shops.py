"""Questions about a shop: orders and money, products in the order of a basket, customers who come back, rented cars."""

from __future__ import annotations

import collections
from decimal import Decimal

import sparkcep
from tests.questions import data
from tests.questions.data import DAY
from tests.questions.question import by, question, streaks


@question(
    of={"orders": data.orders},
    sql="""
        SELECT customer, order, date, count, amount FROM orders MATCH_RECOGNIZE (
          PARTITION BY customer ORDER BY date, order
          ALL ROWS PER MATCH
          PATTERN (RETURN{2,})
          DEFINE RETURN AS status = 'returned'
        )""",
    cached=True,
)
def orders_returned_in_a_row(orders):
    """Which customers return two orders or more in a row, and which ones?"""
    for of in by(orders, "customer", order=lambda o: (o.date, o.order)):
        for row in streaks(of, lambda a, b: a.status == b.status):
            if row[0].status == "returned" and len(row) >= 2:
                for o in row:
                    yield o.customer, o.order, o.date, o["count"], o.amount


@question(
    of={"orders": data.orders},
    sql="""
        SELECT customer, since, until, spent
        FROM (SELECT * FROM orders WHERE status = 'paid') MATCH_RECOGNIZE (
          PARTITION BY customer ORDER BY date, order
          MEASURES FIRST(date) AS since, LAST(date) AS until, sum(amount) AS spent
          PATTERN (ORDERED (MORE){3,})
          DEFINE MORE AS amount > PREV(amount)
        )
        WHERE spent > 200.00""",
    quick=True,
)
def customers_who_spend_more_and_more(orders):
    """Which customers spend more with each of three further orders, more than 200 in all?"""
    for of in by([o for o in orders if o.status == "paid"], "customer", order=lambda o: (o.date, o.order)):
        for row in streaks(of, lambda a, b: b.amount > a.amount):
            spent = sum(o.amount for o in row)
            if len(row) >= 4 and spent > 200:
                yield row[0].customer, row[0].date, row[-1].date, spent


@question(
    of={"orders": data.orders},
    sql="""
        SELECT customer, last_order, next_order, days FROM orders MATCH_RECOGNIZE (
          PARTITION BY customer ORDER BY date, order
          MEASURES A.order AS last_order, B.order AS next_order, datediff(B.date, A.date) AS days
          AFTER MATCH SKIP TO LAST B
          PATTERN (A B)
          DEFINE B AS datediff(date, PREV(date)) > 30
        )""",
)
def customers_who_come_back_after_a_month(orders):
    """Between which orders of a customer do more than thirty days pass?"""
    for of in by(orders, "customer", order=lambda o: (o.date, o.order)):
        for a, b in zip(of, of[1:]):
            if (b.date - a.date).days > 30:
                yield a.customer, a.order, b.order, (b.date - a.date).days


@question(
    of={"orders": data.orders},
    sql="""
        SELECT customer, order, count, round(value, 2) AS value FROM (
          SELECT customer, order, date, count, amount AS value FROM orders
        ) MATCH_RECOGNIZE (
          PARTITION BY customer ORDER BY date, order
          MEASURES LAST(order) AS order, LAST(count) AS count, LAST(value) / LAST(count) AS value
          PATTERN (CHEAP DEAR)
          DEFINE
            CHEAP AS count > 0 AND value > 0,
            DEAR AS count > 0 AND value / count > 4 * PREV(value / count)
        )""",
)
def prices_that_jump(orders):
    """Which order's unit price is more than four times that of the order before, where some orders have no units?"""
    for of in by(orders, "customer", order=lambda o: (o.date, o.order)):
        at = 0
        while at + 1 < len(of):
            a, b = of[at], of[at + 1]
            if a["count"] > 0 and a.amount > 0 and b["count"] > 0 and b.amount / b["count"] > 4 * a.amount / a["count"]:
                yield b.customer, b.order, b["count"], round(b.amount / b["count"] + Decimal("0.0000001"), 2)
                at += 2
            else:
                at += 1


@question(
    of={"orders": data.orders},
    sql="""
        SELECT customer, at, balance FROM orders MATCH_RECOGNIZE (
          PARTITION BY customer ORDER BY date, order
          MEASURES LAST(order) AS at, sum(amount) AS balance
          PATTERN (^ BELOW* OVER)
          DEFINE BELOW AS sum(amount) <= 300, OVER AS sum(amount) > 300
        )""",
)
def order_that_passes_a_balance(orders):
    """With which order does a customer's total pass 300 for the first time?"""
    for of in by(orders, "customer", order=lambda o: (o.date, o.order)):
        balance = Decimal(0)
        for o in of:
            balance += o.amount
            if balance > 300:
                yield o.customer, o.order, balance
                break


@question(
    of={"orders": data.orders},
    sql="""
        SELECT month, customer, orders, paid FROM (SELECT *, date_trunc('month', date) AS month FROM orders)
        MATCH_RECOGNIZE (
          PARTITION BY customer, month ORDER BY date, order
          MEASURES count(*) AS orders, sum(amount) FILTER (WHERE status = 'paid') AS paid
          PATTERN (^ ANY{4,} $)
        )""",
)
def busy_months(orders):
    """In which months does a customer order four times or more, and how much of it is paid?"""
    for of in by([data.Row(o, month=o.date.replace(day=1)) for o in orders], "customer", "month", order=lambda o: (o.date, o.order)):
        if len(of) >= 4:
            paid = [o.amount for o in of if o.status == "paid"]
            month = data.datetime.datetime.combine(of[0].month, data.datetime.time())
            yield month, of[0].customer, len(of), sum(paid) if paid else None


@question(
    of={"orders": data.orders},
    sql="""
        SELECT status, count(*) AS n, avg(days) AS days FROM orders MATCH_RECOGNIZE (
          PARTITION BY customer ORDER BY date, order
          MEASURES LAST(status) AS status, datediff(LAST(end), FIRST(date)) AS days
          PATTERN (PAID (CANCELLED | RETURNED))
          DEFINE PAID AS status = 'paid', CANCELLED AS status = 'cancelled', RETURNED AS status = 'returned'
        )
        GROUP BY status""",
)
def what_follows_a_paid_order(orders):
    """How often does a cancelled or returned order follow a paid one, and how many days do both take on average?"""
    days = collections.defaultdict(list)
    for of in by(orders, "customer", order=lambda o: (o.date, o.order)):
        for a, b in zip(of, of[1:]):
            if a.status == "paid" and b.status != "paid":
                days[b.status].append((b.end - a.date).days)
    for status, some in days.items():
        yield status, len(some), sum(some) / len(some)


@question(
    of={"orders": data.orders},
    sql="""
        CREATE OR REPLACE TEMP VIEW wins AS
        SELECT customer, FIRST AS since, total FROM orders MATCH_RECOGNIZE (
          PARTITION BY customer ORDER BY date, order
          MEASURES FIRST(date) AS first, sum(amount) AS total
          PATTERN (WIN{3,})
          DEFINE WIN AS amount > 50 AND status = 'paid'
        );
        SELECT w.customer, w.since, w.total, l.lost
        FROM wins AS w JOIN (
          SELECT customer, lost FROM orders MATCH_RECOGNIZE (
            PARTITION BY customer ORDER BY date, order
            MEASURES -sum(amount) AS lost
            PATTERN (LOSS{2,})
            DEFINE LOSS AS amount < 50
          )
        ) AS l ON w.customer = l.customer""",
)
def customers_with_good_and_bad_times(orders):
    """Which customers have three good orders in a row and, at another time, two bad ones?"""
    for of in by(orders, "customer", order=lambda o: (o.date, o.order)):
        good = [[]]
        bad = [[]]
        for o in of:
            for streak, holds in ((good, o.amount > 50 and o.status == "paid"), (bad, o.amount < 50)):
                streak[-1].append(o) if holds else streak.append([])
        for a in good:
            for b in bad:
                if len(a) >= 3 and len(b) >= 2:
                    yield a[0].customer, a[0].date, sum(o.amount for o in a), -sum(o.amount for o in b)


@question(
    of={"baskets": data.baskets, "products": data.products},
    sql="""
        SELECT basket, goods, price
        FROM baskets JOIN products USING (product) MATCH_RECOGNIZE (
          PARTITION BY basket ORDER BY position
          MEASURES concat_ws('+', array_agg(product)) AS goods, sum(price) AS price
          PATTERN (FOOD DRINK+ FOOD)
          DEFINE FOOD AS category = 'food', DRINK AS category IN ('drink', 'alcohol')
        )""",
    cached=True,
)
def drinks_between_food(baskets, products):
    """In which baskets do one or more drinks lie between two products to eat, and what do these cost?"""
    kinds = {p.product: p.category for p in products}
    for goods in by(baskets, "basket", order="position"):
        at = 0
        while at < len(goods):
            end = at + 1
            while end < len(goods) and kinds[goods[end].product] in ("drink", "alcohol"):
                end += 1
            food = end < len(goods) and kinds[goods[at].product] == kinds[goods[end].product] == "food"
            if end > at + 1 and food:
                some = goods[at : end + 1]
                yield some[0].basket, "+".join(g.product for g in some), sum(g.price for g in some)
                at = end + 1
            else:
                at += 1


@question(
    of={"baskets": data.baskets},
    sql="""
        SELECT basket, n, between FROM baskets MATCH_RECOGNIZE (
          PARTITION BY basket ORDER BY position
          MEASURES count(*) AS n, LAST(position) - FIRST(position) - 1 AS between
          EVENT SELECTION SKIP TILL NEXT MATCH
          PATTERN (NAPPIES BEER)
          DEFINE NAPPIES AS product = 'nappies', BEER AS product = 'beer'
        )""",
    quick=True,
)
def beer_after_nappies(baskets):
    """In which baskets does beer come some time after nappies, and how many products lie between them?"""
    for goods in by(baskets, "basket", order="position"):
        at = 0
        while at < len(goods):
            if goods[at].product == "nappies" and (beer := [i for i in range(at, len(goods)) if goods[i].product == "beer"]):
                yield goods[0].basket, 2, beer[0] - at - 1
                at = beer[0]
            at += 1


@question(
    of={"baskets": data.baskets},
    sql="""
        SELECT basket, missing, errors FROM baskets MATCH_RECOGNIZE (
          PARTITION BY basket ORDER BY position
          MEASURES concat_ws(',', MISSING()) AS missing, MATCH_ERRORS() AS errors
          PATTERN (BREAD BUTTER CHEESE WINE)
          WINDOW 4 ROWS
          APPROX 1
          DEFINE BREAD AS product = 'bread', BUTTER AS product = 'butter', CHEESE AS product = 'cheese', WINE AS product = 'wine'
        )""",
)
def nearly_a_supper(baskets):
    """At which product is a supper of bread, butter, cheese and wine complete but for one, within four products?"""
    supper = ["bread", "butter", "cheese", "wine"]
    for goods in by(baskets, "basket", order="position"):
        names = [g.product for g in goods]
        for last in range(len(names)):
            found = []
            for left_out in [None, *supper]:
                wanted = [s for s in supper if s != left_out]
                if names[last] != wanted[-1]:
                    continue
                place, at = last, len(wanted) - 2
                while at >= 0 and place >= 0:
                    place -= 1
                    while place >= 0 and names[place] != wanted[at]:
                        place -= 1
                    at -= 1
                if place >= 0 and last - place < 4:
                    found.append((left_out is not None, -place, left_out or ""))
            if found:
                errors, _, missing = min(found)
                yield goods[0].basket, missing.upper(), int(errors)


@question(
    of={"rentals": data.rentals},
    sql="""
        SELECT car, first_day, last_day, rentals, km FROM rentals MATCH_RECOGNIZE (
          PARTITION BY car ORDER BY start, end
          MEASURES FIRST(start) AS first_day, max(end) AS last_day, count(*) AS rentals, sum(km) AS km
          PATTERN (A* B)
          DEFINE A AS max(end) >= NEXT(start)
        )""",
)
def times_without_a_pause(rentals):
    """During which periods is a car rented without a pause, if rentals overlap or touch?"""
    for of in by(rentals, "car", order=lambda r: (r.start, r.end)):
        merged = []
        for r in of:
            if merged and r.start <= max(m.end for m in merged):
                merged.append(r)
            else:
                if merged:
                    yield merged[0].car, merged[0].start, max(m.end for m in merged), len(merged), sum(m.km for m in merged)
                merged = [r]
        yield merged[0].car, merged[0].start, max(m.end for m in merged), len(merged), sum(m.km for m in merged)


@question(
    of={"rentals": data.rentals},
    frame=lambda spark, frames: sparkcep.match_recognize(
        frames["rentals"],
        partition_by="car",
        order_by=["start", "end"],
        clause="""MEASURES A.end AS free_from, B.start AS free_until, datediff(B.start, A.end) AS days
                  AFTER MATCH SKIP TO LAST B PATTERN (A B) DEFINE B AS start > date_add(PREV(end), 2)""",
    ),
)
def cars_that_stand_still(rentals):
    """When is a car not rented for more than two days between two rentals that follow each other?"""
    for of in by(rentals, "car", order=lambda r: (r.start, r.end)):
        for a, b in zip(of, of[1:]):
            if b.start > a.end + 2 * DAY:
                yield a.car, a.end, b.start, (b.start - a.end).days
