-- The five transactions of TPC-C for MariaDB (clauses 2.4 to 2.8): a procedure each, whose call is the whole transaction.
-- What is written depends on nothing that was read without its lock; the two that only read see one snapshot. Whatever fails
-- is taken back and told.
delimiter //

create procedure place_order(w int, d int, c int, wanted varchar(200), today bigint)
begin
    declare v_many int default length(wanted) div 13;
    declare v_local int default 1;
    declare n int default 1;
    declare v_w_tax, v_d_tax, v_number, v_discount, v_item, v_supplier, v_quantity, v_price, v_left int;
    declare v_last, v_credit, v_name, v_data, v_s_data, v_info varchar(60);
    declare v_amount bigint;
    declare v_sum bigint default 0;
    declare v_lines varchar(1500) default '';
    declare v_code int;
    declare v_said varchar(512);
    -- There is no such item: what follows says so by its price.
    declare continue handler for not found begin end;
    declare exit handler for sqlstate '45001' begin rollback; select 'rollback'; end;
    declare exit handler for sqlexception begin
        get diagnostics condition 1 v_code = mysql_errno, v_said = message_text;
        rollback;
        select concat_ws(' ', 'abort', v_code, v_said);
    end;
    while n <= v_many do
        if cast(substr(wanted, 13 * n - 6, 5) as signed) <> w then set v_local = 0; end if;
        set n = n + 1;
    end while;
    start transaction;
    select w_tax into v_w_tax from warehouse where w_id = w;
    select d_next_o_id, d_tax into v_number, v_d_tax from district where d_w_id = w and d_id = d for update;
    update district set d_next_o_id = v_number + 1 where d_w_id = w and d_id = d;
    select c_discount, c_last, c_credit into v_discount, v_last, v_credit from customer
        where c_w_id = w and c_d_id = d and c_id = c;
    insert into orders values (w, d, v_number, c, today, null, v_many, v_local);
    insert into new_order values (w, d, v_number);
    set n = 1;
    while n <= v_many do
        set v_item = cast(substr(wanted, 13 * n - 12, 6) as signed);
        set v_supplier = cast(substr(wanted, 13 * n - 6, 5) as signed);
        set v_quantity = cast(substr(wanted, 13 * n - 1, 2) as signed);
        set v_price = null;
        select i_price, i_name, i_data into v_price, v_name, v_data from item where i_id = v_item;
        if v_price is null then signal sqlstate '45001'; end if;
        select s_quantity, s_data, case d when 1 then s_dist_01 when 2 then s_dist_02 when 3 then s_dist_03
            when 4 then s_dist_04 when 5 then s_dist_05 when 6 then s_dist_06 when 7 then s_dist_07 when 8 then s_dist_08
            when 9 then s_dist_09 else s_dist_10 end
            into v_left, v_s_data, v_info from stock where s_w_id = v_supplier and s_i_id = v_item for update;
        set v_left = v_left - v_quantity + if(v_left >= v_quantity + 10, 0, 91);
        update stock set s_quantity = v_left, s_ytd = s_ytd + v_quantity, s_order_cnt = s_order_cnt + 1,
            s_remote_cnt = s_remote_cnt + if(v_supplier = w, 0, 1) where s_w_id = v_supplier and s_i_id = v_item;
        set v_amount = v_price * v_quantity;
        set v_sum = v_sum + v_amount;
        insert into order_line values (w, d, v_number, n, v_item, v_supplier, null, v_quantity, v_amount, v_info);
        set v_lines = concat(v_lines, ' ', v_name, ' ', v_left, ' ',
            if(locate('ORIGINAL', v_data) > 0 and locate('ORIGINAL', v_s_data) > 0, 'B', 'G'), ' ', v_price, ' ', v_amount);
        set n = n + 1;
    end while;
    commit;
    select concat(concat_ws(' ', 'ok', v_number, v_last, v_credit,
        v_sum * (10000 - v_discount) * (10000 + v_w_tax + v_d_tax) div 100000000), v_lines);
end //

create procedure customer_called(w int, d int, called varchar(16), out found int)
begin
    declare v_before int;
    select (count(*) + 1) div 2 - 1 into v_before from customer where c_w_id = w and c_d_id = d and c_last = called;
    select c_id into found from customer where c_w_id = w and c_d_id = d and c_last = called
        order by c_first, c_id limit v_before, 1;
end //

create procedure pay(w int, d int, c_w int, c_d int, c int, called varchar(16), amount bigint, terminal bigint, sequence bigint, today bigint)
begin
    declare v_w_name, v_d_name, v_credit varchar(20);
    declare v_id int default c;
    declare v_balance bigint;
    declare v_code int;
    declare v_said varchar(512);
    declare exit handler for sqlexception begin
        get diagnostics condition 1 v_code = mysql_errno, v_said = message_text;
        rollback;
        select concat_ws(' ', 'abort', v_code, v_said);
    end;
    start transaction;
    update warehouse set w_ytd = w_ytd + amount where w_id = w;
    select w_name into v_w_name from warehouse where w_id = w;
    update district set d_ytd = d_ytd + amount where d_w_id = w and d_id = d;
    select d_name into v_d_name from district where d_w_id = w and d_id = d;
    if called <> '' then call customer_called(c_w, c_d, called, v_id); end if;
    select c_balance - amount, c_credit into v_balance, v_credit from customer
        where c_w_id = c_w and c_d_id = c_d and c_id = v_id for update;
    update customer set c_balance = v_balance, c_ytd_payment = c_ytd_payment + amount, c_payment_cnt = c_payment_cnt + 1,
        c_data = if(v_credit = 'BC', left(concat_ws(' ', v_id, c_d, c_w, d, w, amount, c_data), 500), c_data)
        where c_w_id = c_w and c_d_id = c_d and c_id = v_id;
    insert into history values (w, d, terminal, sequence, c_w, c_d, v_id, today, amount, concat(v_w_name, '    ', v_d_name));
    commit;
    select concat_ws(' ', 'ok', v_id, v_balance);
end //

create procedure order_status(w int, d int, c int, called varchar(16))
begin
    declare v_id int default c;
    declare v_balance, v_entered bigint;
    declare v_first, v_middle, v_last varchar(20);
    declare v_number, v_carrier int;
    declare v_lines varchar(2000);
    start transaction read only;
    if called <> '' then call customer_called(w, d, called, v_id); end if;
    select c_balance, c_first, c_middle, c_last into v_balance, v_first, v_middle, v_last from customer
        where c_w_id = w and c_d_id = d and c_id = v_id;
    select o_id, o_entry_d, o_carrier_id into v_number, v_entered, v_carrier from orders
        where o_w_id = w and o_d_id = d and o_c_id = v_id order by o_id desc limit 1;
    select group_concat(concat_ws(' ', ol_i_id, ol_supply_w_id, ol_quantity, ol_amount, coalesce(ol_delivery_d, 0)) separator ' ')
        into v_lines from order_line where ol_w_id = w and ol_d_id = d and ol_o_id = v_number;
    commit;
    select concat_ws(' ', 'ok', v_id, v_balance, v_first, v_middle, v_last, v_number, v_entered, coalesce(v_carrier, 0), v_lines);
end //

create procedure deliver(w int, carrier int, today bigint)
begin
    declare d int default 1;
    declare v_oldest, v_c int;
    declare v_sum bigint;
    declare v_done varchar(200) default 'ok';
    declare v_code int;
    declare v_said varchar(512);
    -- No order waits there.
    declare continue handler for not found begin end;
    declare exit handler for sqlexception begin
        get diagnostics condition 1 v_code = mysql_errno, v_said = message_text;
        rollback;
        select concat_ws(' ', 'abort', v_code, v_said);
    end;
    start transaction;
    while d <= 10 do
        set v_oldest = null;
        select no_o_id into v_oldest from new_order where no_w_id = w and no_d_id = d order by no_o_id limit 1 for update;
        if v_oldest is not null then
            delete from new_order where no_w_id = w and no_d_id = d and no_o_id = v_oldest;
            select o_c_id into v_c from orders where o_w_id = w and o_d_id = d and o_id = v_oldest for update;
            update orders set o_carrier_id = carrier where o_w_id = w and o_d_id = d and o_id = v_oldest;
            select sum(ol_amount) into v_sum from order_line where ol_w_id = w and ol_d_id = d and ol_o_id = v_oldest for update;
            update order_line set ol_delivery_d = today where ol_w_id = w and ol_d_id = d and ol_o_id = v_oldest;
            update customer set c_balance = c_balance + v_sum, c_delivery_cnt = c_delivery_cnt + 1
                where c_w_id = w and c_d_id = d and c_id = v_c;
            set v_done = concat_ws(' ', v_done, d, v_oldest);
        end if;
        set d = d + 1;
    end while;
    commit;
    select v_done;
end //

create procedure stock_level(w int, d int, threshold int)
begin
    declare v_next, v_low int;
    start transaction read only;
    select d_next_o_id into v_next from district where d_w_id = w and d_id = d;
    select count(distinct s_i_id) into v_low from order_line join stock on s_w_id = ol_w_id and s_i_id = ol_i_id
        where ol_w_id = w and ol_d_id = d and ol_o_id >= v_next - 20 and ol_o_id < v_next and s_quantity < threshold;
    commit;
    select concat_ws(' ', 'ok', v_low);
end //

delimiter ;
