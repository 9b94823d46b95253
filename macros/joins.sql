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

{#-
  The same with the time of the previous row, too, `previous_at`; and the conditions that such a row is the
  first one at or after a time, or the nearest one: of two that are as near, the earlier.

    FROM flights f LEFT JOIN {{ deltajoin.with_neighbours(ref('weather'), ['origin'], 'time_hour') }} w
      ON f.origin = w.origin AND {{ deltajoin.is_nearest('f.time_hour', 'w', 'time_hour') }}
-#}
{% macro with_neighbours(relation, keys, at) -%}
{%- set rows = "OVER (PARTITION BY " ~ keys | join(', ') ~ " ORDER BY " ~ at ~ ")" -%}
(SELECT *, lag({{ at }}) {{ rows }} AS previous_at, lead({{ at }}) {{ rows }} AS next_at FROM {{ relation }})
{%- endmacro %}

{% macro is_first_after(time, right, at) -%}
{{ time }} <= {{ right }}.{{ at }} AND ({{ time }} > {{ right }}.previous_at OR {{ right }}.previous_at IS NULL)
{%- endmacro %}

{% macro is_nearest(time, right, at) -%}
({{ time }} > {{ right }}.previous_at OR {{ right }}.previous_at IS NULL) AND ({{ time }} < {{ right }}.next_at OR {{ right }}.next_at IS NULL) AND ({{ time }} - {{ right }}.{{ at }} <= {{ right }}.next_at - ({{ time }}) OR {{ right }}.next_at IS NULL) AND ({{ right }}.{{ at }} - ({{ time }}) < {{ time }} - {{ right }}.previous_at OR {{ right }}.previous_at IS NULL)
{%- endmacro %}


{#-
  Polygons on a plane, as join conditions that are accelerated by their bounding boxes:

    FROM trips t JOIN zones z ON {{ deltajoin.point_in_polygon('t.x', 't.y', 'z.ring') }}
    FROM parcels p JOIN floods f ON {{ deltajoin.polygons_intersect('p.ring', 'f.ring') }}

  A ring is an array<struct<x: double, y: double>> of vertices in order, either way round; the first one
  may stand at the end again. Of a ring that crosses itself a point is inside where an odd number of edges
  is above it. Holes are rings of their own: inside the outer one AND NOT inside a hole's.

  A point on the boundary belongs to the polygon where the place just above it does, and where that is
  boundary, too, the place just right of that: of polygons that share edges, one has it. Polygons intersect
  that touch in a point or an edge, or of which one lies in the other.

  NULL or false, so no match: a ring that is NULL, has fewer than 3 vertices, or a vertex that is NULL, NaN
  or beyond 1e150; a point that is NULL or NaN. Coordinates are computed as doubles, which round.
-#}
{% macro point_in_polygon(x, y, ring) -%}
({{ x }} BETWEEN {{ deltajoin.ring_end(ring, 'min', 'x') }} AND {{ deltajoin.ring_end(ring, 'max', 'x') }} AND {{ y }} BETWEEN {{ deltajoin.ring_end(ring, 'min', 'y') }} AND {{ deltajoin.ring_end(ring, 'max', 'y') }} AND {{ deltajoin.is_ring(ring) }} AND {{ deltajoin.is_inside(x, y, ring) }})
{%- endmacro %}

{% macro polygons_intersect(ring_a, ring_b) -%}
({{ deltajoin.ends_overlap(ring_a, ring_b, 'x') }} AND {{ deltajoin.ends_overlap(ring_a, ring_b, 'y') }} AND {{ deltajoin.is_ring(ring_a) }} AND {{ deltajoin.is_ring(ring_b) }} AND (exists({{ deltajoin.ring_edges(ring_a) }}, edge__ -> exists({{ deltajoin.ring_edges(ring_b) }}, other__ -> {{ deltajoin.edges_meet('edge__', 'other__') }})) OR {{ deltajoin.begins_inside(ring_a, ring_b) }} OR {{ deltajoin.begins_inside(ring_b, ring_a) }}))
{%- endmacro %}

{#- The rest are their parts. Names within lambdas end in `__`, as no relation's name does.

  An end of the bounding box; without the cast its type were not known, and nothing accelerated. -#}
{% macro ring_end(ring, end, axis) -%}
CAST(array_{{ end }}(({{ ring }}).{{ axis }}) AS DOUBLE)
{%- endmacro %}

{% macro ends_overlap(ring_a, ring_b, axis) -%}
{{ deltajoin.ring_end(ring_a, 'min', axis) }} <= {{ deltajoin.ring_end(ring_b, 'max', axis) }} AND {{ deltajoin.ring_end(ring_a, 'max', axis) }} >= {{ deltajoin.ring_end(ring_b, 'min', axis) }}
{%- endmacro %}

{% macro is_ring(ring) -%}
array_size({{ ring }}) >= 3 AND forall({{ ring }}, vertex__ -> abs(vertex__.x) < 1e150D AND abs(vertex__.y) < 1e150D)
{%- endmacro %}

{#- Each edge from its left end `a` to its right one `b`: polygons that share it round alike. -#}
{% macro ring_edges(ring) -%}
{%- set ends = "named_struct('x', vertex__.x, 'y', vertex__.y), named_struct('x', next__.x, 'y', next__.y)" -%}
zip_with({{ ring }}, concat(slice({{ ring }}, 2, array_size({{ ring }})), slice({{ ring }}, 1, 1)), (vertex__, next__) -> named_struct('a', least({{ ends }}), 'b', greatest({{ ends }})))
{%- endmacro %}

{#- An odd number of edges is above the point. -#}
{% macro is_inside(x, y, ring) -%}
array_size(filter({{ deltajoin.ring_edges(ring) }}, edge__ -> edge__.a.x <= {{ x }} AND {{ x }} < edge__.b.x AND ({{ y }} - edge__.a.y) * (edge__.b.x - edge__.a.x) < (edge__.b.y - edge__.a.y) * ({{ x }} - edge__.a.x))) % 2 = 1
{%- endmacro %}

{% macro begins_inside(ring_a, ring_b) -%}
{{ deltajoin.is_inside('get(' ~ ring_a ~ ', 0).x', 'get(' ~ ring_a ~ ', 0).y', ring_b) }}
{%- endmacro %}

{#- Their boxes overlap, and neither lies on one side of the other's line alone. -#}
{% macro edges_meet(e, f) -%}
{{ e }}.a.x <= {{ f }}.b.x AND {{ f }}.a.x <= {{ e }}.b.x AND least({{ e }}.a.y, {{ e }}.b.y) <= greatest({{ f }}.a.y, {{ f }}.b.y) AND least({{ f }}.a.y, {{ f }}.b.y) <= greatest({{ e }}.a.y, {{ e }}.b.y) AND {{ deltajoin.side_of(f ~ '.a', e) }} * {{ deltajoin.side_of(f ~ '.b', e) }} <= 0 AND {{ deltajoin.side_of(e ~ '.a', f) }} * {{ deltajoin.side_of(e ~ '.b', f) }} <= 0
{%- endmacro %}

{#- 1 above an edge's line, -1 below it, 0 on it. -#}
{% macro side_of(point, edge) -%}
signum(({{ edge }}.b.x - {{ edge }}.a.x) * ({{ point }}.y - {{ edge }}.a.y) - ({{ edge }}.b.y - {{ edge }}.a.y) * ({{ point }}.x - {{ edge }}.a.x))
{%- endmacro %}
