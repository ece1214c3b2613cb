-- The five transactions of TPC-C for PostgreSQL (clauses 2.4 to 2.8): a function each, whose call is the whole transaction.
-- What is written depends on nothing that was read without its lock; the two that only read are stable, so that all of their
-- statements see what there was when they were called. Whatever fails is taken back by the block and told.

create function place_order(w int, d int, c int, wanted text, today bigint) returns text language plpgsql as $$
declare
    v_many int := length(wanted) / 13;
    v_local int := 1;
    v_w_tax int; v_d_tax int; v_number int; v_discount int; v_last text; v_credit text;
    v_item int; v_supplier int; v_quantity int;
    v_price int; v_name text; v_data text; v_left int; v_s_data text; v_info text;
    v_amount bigint; v_sum bigint := 0; v_lines text := '';
begin
    for n in 1..v_many loop
        if substr(wanted, 13 * n - 6, 5)::int <> w then v_local := 0; end if;
    end loop;
    select w_tax into strict v_w_tax from warehouse where w_id = w;
    update district set d_next_o_id = d_next_o_id + 1 where d_w_id = w and d_id = d
        returning d_next_o_id - 1, d_tax into strict v_number, v_d_tax;
    select c_discount, c_last, c_credit into strict v_discount, v_last, v_credit from customer
        where c_w_id = w and c_d_id = d and c_id = c;
    insert into orders values (w, d, v_number, c, today, null, v_many, v_local);
    insert into new_order values (w, d, v_number);
    for n in 1..v_many loop
        v_item := substr(wanted, 13 * n - 12, 6)::int;
        v_supplier := substr(wanted, 13 * n - 6, 5)::int;
        v_quantity := substr(wanted, 13 * n - 1, 2)::int;
        select i_price, i_name, i_data into v_price, v_name, v_data from item where i_id = v_item;
        if not found then raise exception 'there is no such item' using errcode = 'TPCC1'; end if;
        update stock set
            s_quantity = s_quantity - v_quantity + case when s_quantity >= v_quantity + 10 then 0 else 91 end,
            s_ytd = s_ytd + v_quantity, s_order_cnt = s_order_cnt + 1,
            s_remote_cnt = s_remote_cnt + case when v_supplier = w then 0 else 1 end
            where s_w_id = v_supplier and s_i_id = v_item
            returning s_quantity, s_data, case d when 1 then s_dist_01 when 2 then s_dist_02 when 3 then s_dist_03
                when 4 then s_dist_04 when 5 then s_dist_05 when 6 then s_dist_06 when 7 then s_dist_07 when 8 then s_dist_08
                when 9 then s_dist_09 else s_dist_10 end
            into strict v_left, v_s_data, v_info;
        v_amount := v_price::bigint * v_quantity;
        v_sum := v_sum + v_amount;
        insert into order_line values (w, d, v_number, n, v_item, v_supplier, null, v_quantity, v_amount, v_info);
        v_lines := concat(v_lines, ' ', v_name, ' ', v_left, ' ',
            case when strpos(v_data, 'ORIGINAL') > 0 and strpos(v_s_data, 'ORIGINAL') > 0 then 'B' else 'G' end,
            ' ', v_price, ' ', v_amount);
    end loop;
    return concat_ws(' ', 'ok', v_number, v_last, v_credit,
        v_sum * (10000 - v_discount) * (10000 + v_w_tax + v_d_tax) / 100000000) || v_lines;
exception
    when sqlstate 'TPCC1' then return 'rollback';
    when others then return concat_ws(' ', 'abort', sqlstate, sqlerrm);
end $$;

create function customer_called(w int, d int, called text) returns int language plpgsql stable as $$
declare
    v_many int; v_id int;
begin
    select count(*) into v_many from customer where c_w_id = w and c_d_id = d and c_last = called;
    select c_id into strict v_id from customer where c_w_id = w and c_d_id = d and c_last = called
        order by c_first, c_id offset (v_many + 1) / 2 - 1 limit 1;
    return v_id;
end $$;

create function pay(w int, d int, c_w int, c_d int, c int, called text, amount bigint, terminal bigint, sequence bigint, today bigint)
    returns text language plpgsql as $$
declare
    v_w_name text; v_d_name text; v_id int := c; v_balance bigint; v_credit text;
begin
    update warehouse set w_ytd = w_ytd + amount where w_id = w returning w_name into strict v_w_name;
    update district set d_ytd = d_ytd + amount where d_w_id = w and d_id = d returning d_name into strict v_d_name;
    if called <> '' then v_id := customer_called(c_w, c_d, called); end if;
    update customer set c_balance = c_balance - amount, c_ytd_payment = c_ytd_payment + amount,
        c_payment_cnt = c_payment_cnt + 1
        where c_w_id = c_w and c_d_id = c_d and c_id = v_id returning c_balance, c_credit into strict v_balance, v_credit;
    if v_credit = 'BC' then
        update customer set c_data = left(concat_ws(' ', v_id, c_d, c_w, d, w, amount, c_data), 500)
            where c_w_id = c_w and c_d_id = c_d and c_id = v_id;
    end if;
    insert into history values (w, d, terminal, sequence, c_w, c_d, v_id, today, amount, concat(v_w_name, '    ', v_d_name));
    return concat_ws(' ', 'ok', v_id, v_balance);
exception when others then return concat_ws(' ', 'abort', sqlstate, sqlerrm);
end $$;

create function order_status(w int, d int, c int, called text) returns text language plpgsql stable as $$
declare
    v_id int := c; v_balance bigint; v_first text; v_middle text; v_last text;
    v_number int; v_entered bigint; v_carrier int; v_lines text;
begin
    if called <> '' then v_id := customer_called(w, d, called); end if;
    select c_balance, c_first, c_middle, c_last into strict v_balance, v_first, v_middle, v_last from customer
        where c_w_id = w and c_d_id = d and c_id = v_id;
    select o_id, o_entry_d, o_carrier_id into strict v_number, v_entered, v_carrier from orders
        where o_w_id = w and o_d_id = d and o_c_id = v_id order by o_id desc limit 1;
    select string_agg(concat_ws(' ', ol_i_id, ol_supply_w_id, ol_quantity, ol_amount, coalesce(ol_delivery_d, 0)), ' ')
        into v_lines from order_line where ol_w_id = w and ol_d_id = d and ol_o_id = v_number;
    return concat_ws(' ', 'ok', v_id, v_balance, v_first, v_middle, v_last, v_number, v_entered, coalesce(v_carrier, 0), v_lines);
end $$;

create function deliver(w int, carrier int, today bigint) returns text language plpgsql as $$
declare
    v_oldest int; v_c int; v_sum bigint; v_done text := 'ok';
begin
    for d in 1..10 loop
        loop
            select min(no_o_id) into v_oldest from new_order where no_w_id = w and no_d_id = d;
            exit when v_oldest is null;
            delete from new_order where no_w_id = w and no_d_id = d and no_o_id = v_oldest;
            -- Otherwise another delivery was faster, and has committed.
            exit when found;
        end loop;
        continue when v_oldest is null;
        update orders set o_carrier_id = carrier where o_w_id = w and o_d_id = d and o_id = v_oldest
            returning o_c_id into strict v_c;
        select sum(ol_amount) into v_sum from order_line where ol_w_id = w and ol_d_id = d and ol_o_id = v_oldest;
        update order_line set ol_delivery_d = today where ol_w_id = w and ol_d_id = d and ol_o_id = v_oldest;
        update customer set c_balance = c_balance + v_sum, c_delivery_cnt = c_delivery_cnt + 1
            where c_w_id = w and c_d_id = d and c_id = v_c;
        v_done := concat_ws(' ', v_done, d, v_oldest);
    end loop;
    return v_done;
exception when others then return concat_ws(' ', 'abort', sqlstate, sqlerrm);
end $$;

create function stock_level(w int, d int, threshold int) returns text language plpgsql stable as $$
declare
    v_next int; v_low int;
begin
    select d_next_o_id into strict v_next from district where d_w_id = w and d_id = d;
    select count(distinct s_i_id) into v_low from order_line join stock on s_w_id = ol_w_id and s_i_id = ol_i_id
        where ol_w_id = w and ol_d_id = d and ol_o_id >= v_next - 20 and ol_o_id < v_next and s_quantity < threshold;
    return concat_ws(' ', 'ok', v_low);
end $$;
