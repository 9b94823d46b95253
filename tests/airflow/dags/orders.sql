-- {{ this.is_not_a_template }}
select o.id, o.customer, o.amount, c.name
from orders as o
join customers as c on c.id = o.customer
