{#-
  Kilometres between two places, in degrees, as a join condition that is accelerated:

    FROM routes r JOIN airports a ON {{ deltajoin.distance('r.lat', 'r.lon', 'a.lat', 'a.lon') }} <= 100
-#}
{% macro distance(lat1, lon1, lat2, lon2, radius=6371) -%}
2 * {{ radius }} * asin(sqrt(pow(sin(radians({{ lat2 }} - {{ lat1 }}) / 2), 2) + cos(radians({{ lat1 }})) * cos(radians({{ lat2 }})) * pow(sin(radians({{ lon2 }} - {{ lon1 }}) / 2), 2)))
{%- endmacro %}

{#-
  The rows of a table with the time of the next row of the same key, `next_at`; and the condition that
  such a row is the last one at or before a time. (key, at) must be unique, and declared as a key.

    FROM flights f LEFT JOIN {{ deltajoin.with_next(ref('weather'), ['origin'], 'time_hour') }} w
      ON f.origin = w.origin AND {{ deltajoin.is_last_before('f.time_hour', 'w', 'time_hour') }}
-#}
{% macro with_next(relation, keys, at) -%}
(SELECT *, lead({{ at }}) OVER (PARTITION BY {{ keys | join(', ') }} ORDER BY {{ at }}) AS next_at FROM {{ relation }})
{%- endmacro %}

{% macro is_last_before(time, right, at) -%}
{{ time }} >= {{ right }}.{{ at }} AND ({{ time }} < {{ right }}.next_at OR {{ right }}.next_at IS NULL)
{%- endmacro %}
